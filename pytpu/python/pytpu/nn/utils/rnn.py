"""Sequences of different lengths, padded or packed."""

from collections import namedtuple

import pytpu as torch

_Packed = namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


def invert_permutation(permutation):
    """The permutation that undoes this one."""
    if permutation is None:
        return None
    output = torch.empty_like(permutation)
    output.scatter_(0, permutation, torch.arange(0, permutation.numel(), device=permutation.device))
    return output


class PackedSequence(_Packed):
    """The steps of a batch of sequences, without padding: all first steps, then all second steps, ..."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """Moves the data to a device or casts it."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        sorted_indices, unsorted_indices = (
            None if t is None else t.to(data.device) for t in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, sorted_indices, unsorted_indices)

    def cpu(self):
        """Moves the data to the host."""
        return self.to("cpu")

    def double(self):
        """Casts the data to float64."""
        return self.to(dtype=torch.float64)

    def float(self):
        """Casts the data to float32."""
        return self.to(dtype=torch.float32)

    def half(self):
        """Casts the data to float16."""
        return self.to(dtype=torch.float16)

    def long(self):
        """Casts the data to int64."""
        return self.to(dtype=torch.int64)

    def int(self):
        """Casts the data to int32."""
        return self.to(dtype=torch.int32)

    def short(self):
        """Casts the data to int16."""
        return self.to(dtype=torch.int16)

    def char(self):
        """Casts the data to int8."""
        return self.to(dtype=torch.int8)

    def byte(self):
        """Casts the data to uint8."""
        return self.to(dtype=torch.uint8)

    def pin_memory(self):
        """With all tensors in pinned memory, where they can be."""
        return type(self)(*(None if t is None else t.pin_memory() for t in self))

    def is_pinned(self):
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self):
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs padded sequences of the given lengths."""
    if not isinstance(lengths, torch.Tensor):
        lengths = torch.as_tensor(lengths, dtype=torch.int64, device="cpu")
    if enforce_sorted:
        sorted_indices = None
    else:
        lengths, sorted_indices = torch.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    sizes = [int(n) for n in lengths.tolist()]
    if batch_first:
        input = input.transpose(0, 1)
    if not sizes or min(sizes) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if len(sizes) != input.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={input.size(1)})"
        )
    if any(a < b for a, b in zip(sizes, sizes[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do "
            "not need ONNX exportability."
        )
    # Steps between two ends of sequences share a batch size: they are cut out together.
    steps, batch_sizes, start = [], [], 0
    for alive in range(len(sizes), 0, -1):
        end = sizes[alive - 1]
        if end > start:
            steps.append(input[start:end, :alive].reshape((end - start) * alive, *input.shape[2:]))
            batch_sizes += [alive] * (end - start)
            start = end
    return PackedSequence(torch.cat(steps), torch.tensor(batch_sizes, dtype=torch.int64), sorted_indices, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded sequences, lengths) of a packed batch."""
    data, batch_sizes, _, unsorted_indices = sequence
    sizes = batch_sizes.tolist()
    longest = len(sizes)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
    total = longest if total_length is None else total_length
    batch = sizes[0]
    rows, offset = [], 0
    for size in sizes:
        step = data[offset : offset + size]
        offset += size
        if size < batch:
            missing = step.new_full((batch - size, *step.shape[1:]), padding_value)
            step = torch.cat([step, missing])
        rows.append(step)
    padded = torch.stack(rows)
    if total > longest:
        padded = torch.cat([padded, padded.new_full((total - longest, *padded.shape[1:]), padding_value)])
    if batch_first:
        padded = padded.transpose(0, 1)
    lengths = torch.tensor([sum(1 for size in sizes if size > i) for i in range(batch)], dtype=torch.int64)
    if unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, unsorted_indices)
        lengths = lengths[unsorted_indices.cpu()]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stacks sequences, padded to the longest."""
    if isinstance(sequences, torch.Tensor):
        sequences = sequences.unbind(0)
    try:
        sequences = list(sequences)
    except TypeError:
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        ) from None
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    longest = max(s.size(0) for s in sequences)
    rows = []
    for s in sequences:
        missing = s.new_full((longest - s.size(0), *s.shape[1:]), padding_value)
        rows.append(torch.cat([s, missing] if padding_side == "right" else [missing, s]))
    return torch.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences of a padded batch, each at its own length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [seq[: int(n)] for seq, n in zip(padded_sequences, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs a list of sequences."""
    lengths = torch.as_tensor([v.size(0) for v in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
