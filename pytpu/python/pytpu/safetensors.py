"""The safetensors format, with the functions of `safetensors.torch`.

A file has named tensors and no code. A damaged file raises :class:`SafetensorError` before any tensor is made. A new
file replaces the old one after it is complete and on the disk.
"""

import json
import os
from collections import defaultdict

import pytpu as torch
from pytpu import _C

__all__ = [
    "SafetensorError",
    "load",
    "load_file",
    "load_model",
    "safe_open",
    "save",
    "save_file",
    "save_model",
]

_native = _C._safetensors


class SafetensorError(Exception):
    """An error for a damaged file or bytes, or a file that cannot be written."""


def _calling(f, *args):
    try:
        return f(*args)
    except RuntimeError as e:
        if type(e) is not RuntimeError:
            raise
        raise SafetensorError(str(e)) from None


def _device(device):
    return torch.device("tpu", device) if isinstance(device, int) else torch.device(device)


def _existing(filename):
    path = os.fspath(filename)
    if not os.path.exists(path):
        raise FileNotFoundError(f"No such file or directory: {path}")
    return path


def _end(x):
    """Return the end of the last element of a contiguous tensor."""
    return x.data_ptr() + x.numel() * x.element_size()


def _share(tensors):
    """Return the names of tensors on the same memory, in sets."""
    by_storage = defaultdict(list)
    for name, x in tensors.items():
        if x.device.type == "meta" or x.numel() == 0:
            continue
        by_storage[(x.device, x._storage_id())].append(name)
    groups = []
    for names in by_storage.values():
        if len(names) < 2:
            continue
        # Parts of one storage that do not overlap share nothing.
        ordered = sorted(names, key=lambda n: (tensors[n].data_ptr(), _end(tensors[n])))
        group, stop = {ordered[0]}, _end(tensors[ordered[0]])
        for name in ordered[1:]:
            if tensors[name].data_ptr() < stop:
                group.add(name)
            else:
                groups.append(group)
                group = {name}
            stop = max(stop, _end(tensors[name]))
        groups.append(group)
    return [g for g in groups if len(g) > 1]


def _check(tensors):
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for key, x in tensors.items():
        if not isinstance(x, torch.Tensor):
            raise ValueError(f"Key `{key}` is invalid, expected torch.Tensor but received {type(x)}")
    failing = _share(tensors)
    if failing:
        raise RuntimeError(
            "\n            Some tensors share memory, this will lead to duplicate memory on disk and potential "
            f"differences when loading them again: {failing}.\n            A potential way to correctly save your "
            "model is to use `save_model`.\n            More information at "
            "https://huggingface.co/docs/safetensors/torch_shared_tensors\n            "
        )
    for key, x in tensors.items():
        if not x.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{key}` which is not allowed. It either means you "
                "are trying to save tensors which are reference of each other in which case it's recommended to save "
                "only the full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to "
                "pack it before saving."
            )
    return tensors


def save(tensors, metadata=None):
    """Return the bytes of a file with these tensors."""
    return _calling(_native.save, _check(tensors), metadata)


# The format's names, in the order in which tensors are written. The largest elements come first, so that all are
# aligned.
_DTYPES = {
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float64: "F64",
    torch.complex64: "C64",
    torch.float32: "F32",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e8m0fnu: "F8_E8M0",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def _header(tensors, metadata):
    """Return the part of the file before the tensors, and their names in the order of the file."""
    places = {dtype: i for i, dtype in enumerate(_DTYPES)}
    for name, x in tensors.items():
        if x.dtype not in places:
            raise TypeError(f"safetensors: no dtype for {x.dtype}")
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"safetensors: the key {name!r} is reserved or no string")
    order = sorted(tensors, key=lambda name: (places[tensors[name].dtype], name.encode()))
    header, at = {}, 0
    if metadata is not None:
        if not all(isinstance(text, str) for pair in metadata.items() for text in pair):
            raise TypeError("safetensors: metadata must be a dict from str to str")
        header["__metadata__"] = dict(metadata)
    for name in order:
        x = tensors[name]
        end = at + x.numel() * x.element_size()
        header[name] = {"dtype": _DTYPES[x.dtype], "shape": list(x.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, order


def save_file(tensors, filename, metadata=None):
    """Write tensors to a file. An existing file is replaced after all is written and on the disk.

    Raises:
        SafetensorError: the file cannot be written; the old one is as it was.
    """
    from ._archive import memory_of, pieces
    from ._replace_file import replacing

    header, order = _header(_check(tensors), metadata)
    try:
        with replacing(filename) as file:
            file.write(header)
            for name in order:
                x = tensors[name].detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
                for piece in pieces(memory_of(x)):
                    file.write(piece)
    except OSError as e:
        reason = f"{e.strerror[:1].lower()}{e.strerror[1:]}" if isinstance(e, IsADirectoryError) else e.strerror
        raise SafetensorError(
            f'Error while serializing: I/O error: {reason} (os error {e.errno}) at path "{os.fspath(filename)}"'
        ) from None


def _no_duplicates(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))
        raise SafetensorError(
            f"Error while deserializing header: invalid JSON in header: the key `{twice}` occurs twice"
        )
    shape = found.get("shape")
    if isinstance(shape, list) and any(type(n) is int and n >= 1 << 63 for n in shape):
        raise SafetensorError(
            f"Error while deserializing header: invalid JSON in header: a size of {shape} is too large"
        )
    return found


def _check_header(text):
    """Raise an error for a header with a repeated key or a size that no tensor has. The reader reports other faults."""
    try:
        json.loads(text, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError):
        pass


def _check_file(path):
    """Call `_check_header` for a file that can have a header."""
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size <= min(100_000_000, os.fstat(file.fileno()).st_size):
                _check_header(file.read(size))
    except OSError:
        # The reader reports the fault.
        pass


def load(data):
    """Return the tensors in the bytes of a file."""
    data = bytes(data)
    _check_header(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return _calling(_native.load, data, torch.device("cpu"))


def load_file(filename, device="cpu"):
    """The tensors in a file."""
    path = _existing(filename)
    _check_file(path)
    return _calling(_native.load_file, path, _device(device))


class _Slice:
    """A tensor of a file that is read when indexed."""

    def __init__(self, file, name):
        self._file = file
        self._name = name
        self._dtype, self._shape = _calling(file._file.describe, name)

    def get_shape(self):
        """Its sizes."""
        return list(self._shape)

    def get_dtype(self):
        """The format's name for its dtype."""
        return self._dtype

    def __getitem__(self, index):
        # The result is a copy, so that the rest of the tensor is freed.
        return self._file.get_tensor(self._name)[index].clone()


class safe_open:
    """A file whose tensors are read one by one, as a context manager."""

    def __init__(self, filename, framework="pt", device="cpu"):
        if framework not in ("pt", "torch", "pytorch", "np", "numpy"):
            raise SafetensorError(f"framework {framework} is invalid")
        self._numpy = framework in ("np", "numpy")
        self._device = _device(device)
        path = _existing(filename)
        _check_file(path)
        self._file = _calling(_native.File, path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def keys(self):
        """Names of the tensors."""
        return sorted(_calling(self._file.names))

    def offset_keys(self):
        """Names of the tensors in the order of their places."""
        return _calling(self._file.names)

    def metadata(self):
        """Return the metadata of the file: texts by name."""
        return _calling(self._file.metadata)

    def get_tensor(self, name):
        """Read a tensor."""
        x = _calling(self._file.tensor, name, self._device)
        return x.numpy() if self._numpy else x

    def get_tensors(self, names):
        """Read tensors."""
        return {name: self.get_tensor(name) for name in names}

    def get_slice(self, name):
        """A tensor that is read when indexed."""
        return _Slice(self, name)


def _is_complete(x):
    return x.storage_offset() == 0 and x.numel() * x.element_size() == x.untyped_storage().nbytes()


def _duplicates(state, preferred=()):
    """Return for each tensor that is kept the other names of the same memory."""
    dropped = defaultdict(list)
    for names in _share(state):
        whole = sorted(n for n in names if _is_complete(state[n]))
        if not whole:
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no suitable name to keep "
                f"for saving amongst: {names}. None is covering the entire storage.Refusing to save/load the model "
                "since you could be storing much more memory than needed. Please refer to "
                "https://huggingface.co/docs/safetensors/torch_shared_tensors for more information. Or open an issue."
            )
        liked = [n for n in whole if n in preferred]
        kept = (liked or whole)[0]
        dropped[kept] += [n for n in sorted(names) if n != kept]
    return dropped


def save_model(model, filename, metadata=None, force_contiguous=True):
    """Write the state of a module. Shared tensors are written once, and the file's metadata names them."""
    state = dict(model.state_dict())
    metadata = dict(metadata or {})
    for kept, others in _duplicates(state).items():
        for name in others:
            metadata.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {k: v.contiguous() for k, v in state.items()}
    try:
        save_file(state, filename, metadata=metadata or None)
    except ValueError as e:
        raise ValueError(
            f"{e} Or use save_model(..., force_contiguous=True), read the docs for potential caveats."
        ) from None


def load_model(model, filename, strict=True, device="cpu"):
    """Load a file of `save_model`. Return `(missing, unexpected)` keys, which are errors if `strict`."""
    state = load_file(filename, device=device)
    duplicates = _duplicates(dict(model.state_dict()), preferred=state.keys())
    missing, unexpected = model.load_state_dict(state, strict=False)
    missing, unexpected = set(missing), list(unexpected)
    for others in duplicates.values():
        for name in others:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        error = f"Error(s) in loading state_dict for {type(model).__name__}:"
        if missing:
            error += "\n    Missing key(s) in state_dict: " + ", ".join(f'"{k}"' for k in sorted(missing))
        if unexpected:
            error += "\n    Unexpected key(s) in state_dict: " + ", ".join(f'"{k}"' for k in sorted(unexpected))
        raise RuntimeError(error)
    return missing, unexpected
