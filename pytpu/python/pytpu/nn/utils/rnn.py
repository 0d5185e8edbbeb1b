"""Sequences of different lengths, padded or packed."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytpu as torch
from pytpu import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes another one.

    Args:
        permutation: Integers `(n,)`, or `None`.

    Returns:
        Integers `(n,)`, or `None`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    output = torch.empty_like(permutation)
    output.scatter_(0, permutation, torch.arange(0, permutation.numel(), device=permutation.device))
    return output


class PackedSequence(_Packed):
    """Hold a batch of sequences without padding: all first steps, then all second steps, and so on.

    The functions `pack_sequence` and `pack_padded_sequence` make it.

    Args:
        data: Steps `(sum of lengths, *)`, or a pair of `data` and `batch_sizes`.
        batch_sizes: Number of sequences at each step, `int64`, on `cpu`.
        sorted_indices: Order in which the sequences were sorted by length. `None` if they were sorted already.
        unsorted_indices: Order that undoes it. `None` computes it.

    Raises:
        ValueError: `batch_sizes` is not on `cpu`.

    Example:
        >>> import pytpu as torch
        >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
        >>> packed.data, packed.batch_sizes
        (tensor([1, 3, 2]), tensor([2, 1]))
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
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

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the sequences on another device or in another dtype.

        Args:
            *args: Arguments of `Tensor.to`.
            **kwargs: Keyword arguments of `Tensor.to`.

        Returns:
            The same object if nothing changes.
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        sorted_indices, unsorted_indices = (
            None if t is None else t.to(data.device) for t in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, sorted_indices, unsorted_indices)

    def cpu(self) -> Self:
        """Return the sequences on the host."""
        return self.to("cpu")

    def double(self) -> Self:
        """Return the sequences in `float64`."""
        return self.to(dtype=torch.float64)

    def float(self) -> Self:
        """Return the sequences in `float32`."""
        return self.to(dtype=torch.float32)

    def half(self) -> Self:
        """Return the sequences in `float16`."""
        return self.to(dtype=torch.float16)

    def long(self) -> Self:
        """Return the sequences in `int64`."""
        return self.to(dtype=torch.int64)

    def int(self) -> Self:
        """Return the sequences in `int32`."""
        return self.to(dtype=torch.int32)

    def short(self) -> Self:
        """Return the sequences in `int16`."""
        return self.to(dtype=torch.int16)

    def char(self) -> Self:
        """Return the sequences in `int8`."""
        return self.to(dtype=torch.int8)

    def byte(self) -> Self:
        """Return the sequences in `uint8`."""
        return self.to(dtype=torch.uint8)

    def pin_memory(self) -> Self:
        """Return the sequences in pinned memory, where there is such memory."""
        tensors: list[Any] = [None if t is None else t.pin_memory() for t in self]
        return type(self)(*tensors)

    def is_pinned(self) -> builtins.bool:
        """Return whether the data is in pinned memory."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> builtins.bool:
        """Return whether the data is on a CUDA device."""
        return self.data.is_cuda


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a batch of padded sequences.

    Args:
        input: Padded sequences `(t, n, *)`.
        lengths: Lengths `(n,)`, each at least 1.
        batch_first: Whether the batch is the first dimension: `(n, t, *)` instead of `(t, n, *)`.
        enforce_sorted: Whether the sequences must be in order of descending length. `False` sorts them.

    Returns:
        The packed batch.

    Raises:
        RuntimeError: A length is not positive, the number of lengths is not `n`, or they are not sorted.

    Example:
        >>> import pytpu as torch
        >>> padded = torch.tensor([[1, 3], [2, 0]])
        >>> torch.nn.utils.rnn.pack_padded_sequence(padded, [2, 1]).data
        tensor([1, 3, 2])
    """
    counts: Any = lengths
    if not isinstance(counts, torch.Tensor):
        counts = torch.as_tensor(counts, dtype=torch.int64, device="cpu")
    if enforce_sorted:
        sorted_indices = None
    else:
        counts, sorted_indices = torch.sort(counts, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    sizes = [int(n) for n in counts.tolist()]
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
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    # All steps until the next sequence ends have one batch size: slice them together.
    steps, batch_sizes, start = [], [], 0
    for alive in range(len(sizes), 0, -1):
        end = sizes[alive - 1]
        if end > start:
            steps.append(input[start:end, :alive].reshape((end - start) * alive, *input.shape[2:]))
            batch_sizes += [alive] * (end - start)
            start = end
    return PackedSequence(torch.cat(steps), torch.tensor(batch_sizes, dtype=torch.int64), sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sequences of a packed batch with padding, and their lengths.

    Args:
        sequence: The packed batch.
        batch_first: Whether the batch is the first dimension: `(n, t, *)` instead of `(t, n, *)`.
        padding_value: Value of the padding.
        total_length: Length to pad to. `None` means the longest sequence.

    Returns:
        Padded sequences `(t, n, *)` and lengths `(n,)`, `int64`, on `cpu`.

    Raises:
        ValueError: `total_length` is less than the longest sequence.

    Example:
        >>> import pytpu as torch
        >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
        >>> torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2],
                [3, 0]]), tensor([2, 1]))
    """
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


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences, padded to the longest.

    Args:
        sequences: Tensors `(length, *)` that differ in their length.
        batch_first: Whether the batch is the first dimension: `(n, t, *)` instead of `(t, n, *)`.
        padding_value: Value of the padding.
        padding_side: `"right"` or `"left"`.

    Returns:
        Tensor `(t, n, *)`.

    Raises:
        RuntimeError: There are no sequences, or `padding_side` is unknown.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.utils.rnn.pad_sequence([torch.tensor([1, 2]), torch.tensor([3])], batch_first=True)
        tensor([[1, 2],
                [3, 0]])
    """
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


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """Return the sequences of a padded batch, each at its own length.

    Args:
        padded_sequences: Padded sequences `(t, n, *)`.
        lengths: Lengths `(n,)`.
        batch_first: Whether the batch is the first dimension: `(n, t, *)` instead of `(t, n, *)`.

    Returns:
        List of `n` tensors.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.utils.rnn.unpad_sequence(torch.tensor([[1, 3], [2, 0]]), [2, 1])
        [tensor([1, 2]), tensor([3])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    counts: Sequence[int] = lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths
    return [seq[: int(n)] for seq, n in zip(padded_sequences, counts)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences.

    Args:
        sequences: Tensors `(length, *)` that differ in their length.
        enforce_sorted: Whether the sequences must be in order of descending length. `False` sorts them.

    Returns:
        The packed batch.

    Raises:
        RuntimeError: There are no sequences, or they are not sorted.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).batch_sizes
        tensor([2, 1])
    """
    lengths = torch.as_tensor([v.size(0) for v in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of a packed batch.

    Args:
        packed_sequences: The packed batch.

    Returns:
        List of tensors.

    Example:
        >>> import pytpu as torch
        >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
        >>> torch.nn.utils.rnn.unpack_sequence(packed)
        [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
