"""The safetensors format, with the functions of ``safetensors.torch``.

A file holds named tensors and nothing that is run. One that is damaged is refused with :class:`SafetensorError` before any
tensor is made; one that is written takes its place at once, when it is whole.
"""

import os
from collections import defaultdict

import pytpu as torch
from pytpu import _C

__all__ = [
    "SafetensorError", "load", "load_file", "load_model", "safe_open", "save", "save_file", "save_model",
]

_native = _C._safetensors


class SafetensorError(Exception):
    """A file or bytes that are not what they should be, or cannot be written."""


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
    """Where the last element of a contiguous tensor ends."""
    return x.data_ptr() + x.numel() * x.element_size()


def _shared(tensors):
    """Names of tensors that lie on the same memory, in sets."""
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


def _checked(tensors):
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for key, x in tensors.items():
        if not isinstance(x, torch.Tensor):
            raise ValueError(f"Key `{key}` is invalid, expected torch.Tensor but received {type(x)}")
    failing = _shared(tensors)
    if failing:
        raise RuntimeError(
            "\n            Some tensors share memory, this will lead to duplicate memory on disk and potential differences "
            f"when loading them again: {failing}.\n            A potential way to correctly save your model is to use "
            "`save_model`.\n            More information at "
            "https://huggingface.co/docs/safetensors/torch_shared_tensors\n            "
        )
    for key, x in tensors.items():
        if not x.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{key}` which is not allowed. It either means you are "
                "trying to save tensors which are reference of each other in which case it's recommended to save only the "
                "full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before "
                "saving."
            )
    return tensors


def save(tensors, metadata=None):
    """The bytes of a file with these tensors."""
    return _calling(_native.save, _checked(tensors), metadata)


def save_file(tensors, filename, metadata=None):
    """Writes tensors to a file; one that was there is replaced when all is written."""
    _calling(_native.save_file, _checked(tensors), os.fspath(filename), metadata)


def load(data):
    """The tensors in the bytes of a file."""
    return _calling(_native.load, bytes(data), torch.device("cpu"))


def load_file(filename, device="cpu"):
    """The tensors in a file."""
    return _calling(_native.load_file, _existing(filename), _device(device))


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
        # Results do not look at the rest of the tensor, so that it goes.
        return self._file.get_tensor(self._name)[index].clone()


class safe_open:
    """A file whose tensors are read one by one, as a context manager."""

    def __init__(self, filename, framework="pt", device="cpu"):
        if framework not in ("pt", "torch", "pytorch", "np", "numpy"):
            raise SafetensorError(f"framework {framework} is invalid")
        self._numpy = framework in ("np", "numpy")
        self._device = _device(device)
        self._file = _calling(_native.File, _existing(filename))

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
        """Text that goes with the tensors."""
        return _calling(self._file.metadata)

    def get_tensor(self, name):
        """Reads a tensor."""
        x = _calling(self._file.tensor, name, self._device)
        return x.numpy() if self._numpy else x

    def get_tensors(self, names):
        """Reads tensors."""
        return {name: self.get_tensor(name) for name in names}

    def get_slice(self, name):
        """A tensor that is read when indexed."""
        return _Slice(self, name)


def _is_complete(x):
    return x.storage_offset() == 0 and x.numel() * x.element_size() == x.untyped_storage().nbytes()


def _duplicates(state, preferred=()):
    """For each tensor that is kept: the other names of the same memory."""
    dropped = defaultdict(list)
    for names in _shared(state):
        whole = sorted(n for n in names if _is_complete(state[n]))
        if not whole:
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no suitable name to keep for "
                f"saving amongst: {names}. None is covering the entire storage.Refusing to save/load the model since you "
                "could be storing much more memory than needed. Please refer to "
                "https://huggingface.co/docs/safetensors/torch_shared_tensors for more information. Or open an issue."
            )
        liked = [n for n in whole if n in preferred]
        kept = (liked or whole)[0]
        dropped[kept] += [n for n in sorted(names) if n != kept]
    return dropped


def save_model(model, filename, metadata=None, force_contiguous=True):
    """Writes the state of a module; tensors that are shared are written once, and the file says so."""
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
    """Loads what ``save_model`` wrote: ``(missing, unexpected)`` keys, which are errors when ``strict``."""
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
