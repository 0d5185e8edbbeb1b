"""``torch.save`` and ``torch.load``: PyTorch's own file format, both ways.

A file is an uncompressed zip archive: ``data.pkl`` holds the objects, with tensors as calls of
``torch._utils._rebuild_tensor_v2`` on storages; each storage's bytes are a file ``data/N``. Names of this package are written
as ``torch``'s and read back as this package's, so PyTorch reads what is written here. Tensors go back to the device they came
from, unless ``map_location`` says otherwise, as it must where there is no such device.

``load`` reads pickles with the machine of ``_weights_only.py``, unless the caller trusts the file. ``docs/files.md`` says what both functions
promise.
"""

import collections
import contextlib
import copyreg
import enum
import importlib
import io
import mmap as _mmap
import os
import pickle
import pickletools
import struct
import threading
import types
import warnings
import zipfile
import zlib

from . import _C, _pickling
from ._size import Size

_STORAGES = {
    "FloatStorage": _C.float32,
    "DoubleStorage": _C.float64,
    "HalfStorage": _C.float16,
    "BFloat16Storage": _C.bfloat16,
    "LongStorage": _C.int64,
    "IntStorage": _C.int32,
    "ShortStorage": _C.int16,
    "CharStorage": _C.int8,
    "ByteStorage": _C.uint8,
    "BoolStorage": _C.bool,
    "ComplexFloatStorage": _C.complex64,
    "ComplexDoubleStorage": _C.complex128,
}
_STORAGE_OF = {v: k for k, v in _STORAGES.items()}


class _Global:
    """A name to be written into the pickle as it is."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *args):
        raise TypeError("stands for a name in a file")


class StorageType:
    """What a file names for the dtype of a storage, such as ``torch.FloatStorage``."""

    __slots__ = ("dtype",)

    def __init__(self, dtype):
        self.dtype = dtype

    def __repr__(self):
        return f"StorageType(dtype={self.dtype})"


class _Saved:
    """The memory of a tensor, while it is written."""

    def __init__(self, tensor, is_untyped=False):
        self.tensor = tensor
        self.is_untyped = is_untyped


def _window(storage, offset, size, stride):
    """A tensor that looks at the memory of a loaded storage.

    The memory goes to its device here, not when it is read: a tensor that has all of it is no view there, which programs for the device
    prefer.
    """
    storage.dtype  # noqa: B018  (what is no storage raises AttributeError here)
    if type(offset) is not int:
        raise TypeError(f"storage_offset must be int, not {type(offset).__name__}")
    size, stride = _ints(size, "size"), _ints(stride, "stride")
    tensor, target = storage._tensor, vars(storage).pop("_target", None)
    try:
        if target is not None:
            window = _C._strided(tensor, offset, size, stride)
            if window.is_contiguous() and window.numel() == tensor.numel():
                # The usual tensor.
                storage._tensor = window.to(target)
                return storage._tensor
            storage._tensor = tensor = tensor.to(target)
        if not tensor.is_cpu and offset == 0 and list(tensor.shape) == size and tensor.is_contiguous():
            return tensor.detach()
        return _C._strided(tensor, offset, size, stride)
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None


def _ints(values, name):
    if not isinstance(values, tuple):
        raise TypeError(f"{name} must be tuple of ints, not {type(values).__name__}")
    return list(values)


class _Pickler(pickle._Pickler):
    dispatch = pickle._Pickler.dispatch.copy()
    is_legacy = False

    def __init__(self, file, protocol):
        super().__init__(file, protocol)
        self.dispatch_table = {k: v for k, v in copyreg.dispatch_table.items() if k not in _pickling.REDUCERS}
        self.storages = {}
        self.keys = {}
        self.kept = []

    def persistent_id(self, obj):
        if not isinstance(obj, _Saved):
            obj = _as_saved(obj)
            if obj is None:
                return None
        t = obj.tensor
        key = (t._storage_id(), t.dtype, t.data_ptr() if obj.is_untyped else 0)
        if key not in self.keys:
            self.keys[key] = str(len(self.storages))
            self.storages[self.keys[key]] = _whole_storage(t)
            self.kept.append(t)
        data = self.storages[self.keys[key]]
        kind = _Global("torch.storage", "UntypedStorage") if obj.is_untyped else _Global("torch", _STORAGE_OF[t.dtype])
        saved = ("storage", kind, self.keys[key], _tag(t), data.numel())
        return (*saved, None) if self.is_legacy else saved

    def reducer_override(self, obj):
        if isinstance(obj, _C.Tensor):
            return _reduce_tensor(obj)
        if isinstance(obj, Size):
            return _Global("torch", "Size"), (tuple(obj),)
        if isinstance(obj, _C.device):
            return _Global("torch", "device"), ((obj.type,) if obj.index is None else (obj.type, obj.index))
        return NotImplemented

    def save_name(self, obj):
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[_Global] = save_name

    def save_dtype(self, obj):
        self.save_name(_Global("torch", repr(obj).removeprefix("torch.")))

    dispatch[_C.dtype] = save_dtype

    def save_global(self, obj, name=None):
        if obj is _C.Tensor:
            return self.save_name(_Global("torch", "Tensor"))
        path = name or getattr(obj, "__qualname__", "")
        if "<locals>" in path:
            raise AttributeError(f"Can't pickle local object {path!r}")
        module = _module_in_file(getattr(obj, "__module__", None) or "")
        if module == "torch" or module.startswith("torch."):
            name = name or getattr(obj, "__qualname__", obj.__name__)
            if isinstance(obj, types.BuiltinFunctionType) and not hasattr(importlib.import_module("pytpu"), name):
                module = "torch._C._nn"  # where PyTorch has what only `nn.functional` names
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
            self.memoize(obj)
            return
        super().save_global(obj, name)

    dispatch[types.FunctionType] = save_global

    def save_type(self, obj):
        if obj in (type(None), type(NotImplemented), type(...)):
            pickle._Pickler.save_type(self, obj)
        else:
            self.save_global(obj)

    dispatch[type] = save_type


def _whole_storage(t):
    n = t._storage_bytes() // t.element_size()
    if not t.is_cpu and t.is_contiguous() and t.numel() == n:
        return t.detach().reshape(-1).cpu()
    return _C._strided(t.detach(), 0, [n], [1]).cpu()


def _reduce_tensor(t):
    from .nn.parameter import Parameter

    hooks = collections.OrderedDict()
    state = dict(t.__dict__)
    if type(t) is Parameter:
        args = t.detach(), t.requires_grad, hooks
        if state:
            return _Global("torch._utils", "_rebuild_parameter_with_state"), (*args, state)
        return _Global("torch._utils", "_rebuild_parameter"), args
    if type(t) is not _C.Tensor or state:
        # The tensor as it would be without its class and attributes, and these.
        plain, args = _reduce_plain(t, hooks)
        return _Global("torch._tensor", "_rebuild_from_type_v2"), (plain, type(t), args, state)
    return _reduce_plain(t, hooks)


def _reduce_plain(t, hooks):
    if t.is_meta:
        args = (t.dtype, tuple(t.shape), tuple(t.stride()), t.requires_grad)
        return _Global("torch._utils", "_rebuild_meta_tensor_no_storage"), args
    d = t.detach().as_subclass(_C.Tensor)
    # A file holds memory, not what a view makes of it.
    d = d.resolve_conj().resolve_neg()
    args = (_Saved(d), d.storage_offset(), tuple(d.shape), tuple(d.stride()), t.requires_grad, hooks)
    return _Global("torch._utils", "_rebuild_tensor_v2"), args


def _as_saved(obj):
    """What a storage is in a file; `None` for other objects."""
    import sys

    there = sys.modules.get(f"{__package__}.storage")
    if there is None or not isinstance(obj, (there.TypedStorage, there.UntypedStorage)):
        return None
    return _Saved(obj._tensor, isinstance(obj, there.UntypedStorage))


def save(obj, f, pickle_module=pickle, pickle_protocol=2, _use_new_zipfile_serialization=True):
    """Writes an object to a file.

    A regular file is replaced when all is written and on the disk: a process that is killed and a full disk leave the old file whole.

    Args:
        obj: tensors, storages, and what `pickle` takes.
        f: a path, or an object with `write`.
        pickle_module: must be `pickle`; other modules are not asked.
        pickle_protocol (int): of `pickle`. `load(weights_only=True)` reads protocol 2 only.
        _use_new_zipfile_serialization (bool): `False` writes PyTorch's format before 1.6.

    Raises:
        RuntimeError: there is no such folder.
        OSError: the file cannot be written.
    """
    is_path = isinstance(f, (str, os.PathLike))
    if not is_path and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if _state.skip_data and not _use_new_zipfile_serialization:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
    text = io.BytesIO()
    p = _Pickler(text, pickle_protocol)
    p.is_legacy = not _use_new_zipfile_serialization
    p.dump(obj)
    name = "archive"
    if is_path:
        folder, base = os.path.split(os.path.abspath(os.fspath(f)))
        if not p.is_legacy and not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {os.path.dirname(os.fspath(f))} does not exist.")
        name = os.path.splitext(base)[0] or name
    with _opened_to_write(f) if is_path else contextlib.nullcontext(f) as file:
        if p.is_legacy:
            _write_legacy(file, p, text.getvalue(), pickle_protocol)
        else:
            _write_archive(file, name, p, text.getvalue())


def _opened_to_write(path):
    from ._replace_file import replacing

    return replacing(path)


def _write_archive(file, name, pickler, text):
    z = _ZipWriter(file)
    z.add(f"{name}/data.pkl", memoryview(text))
    z.add(f"{name}/byteorder", memoryview(b"little"))
    for key, t in pickler.storages.items():
        z.add(f"{name}/data/{key}", None if _state.skip_data else _memory_of(t), t.numel() * t.element_size())
    z.add(f"{name}/version", memoryview(b"3\n"))
    z.close()


def _write_legacy(file, pickler, text, protocol):
    """Pickles one after the other, and behind them the memory of each storage."""
    sizes = {"short": 2, "int": 4, "long": 4}
    for part in (_MAGIC, _PROTOCOL, {"protocol_version": _PROTOCOL, "little_endian": True, "type_sizes": sizes}):
        pickle.dump(part, file, protocol)
    file.write(text)
    keys = sorted(pickler.storages)
    pickle.dump(keys, file, protocol)
    for key in keys:
        t = pickler.storages[key]
        file.write(t.numel().to_bytes(8, "little"))
        for piece in _pieces(_memory_of(t)):
            file.write(piece)


def _memory_of(t):
    """The bytes of a flat tensor in the host's memory, which must outlive them."""
    import ctypes

    n = t.numel() * t.element_size()
    return memoryview((ctypes.c_ubyte * n).from_address(t.data_ptr())).cast("B") if n else memoryview(b"")


def _pieces(data, size=16 << 20):
    return (data[i : i + size] for i in range(0, len(data), size))


class _ZipWriter:
    """Writes a zip archive of uncompressed files whose bytes begin at multiples of 64, so that they can be mapped.

    It needs `write` alone, and holds no file in memory twice. Positions count from where the archive starts.
    """

    _LARGE = 0xFFFFFFFF

    def __init__(self, file):
        self._file = file
        self._at = 0
        self._directory = []

    def _write(self, data):
        self._file.write(data)
        self._at += len(data)

    def add(self, name, data, size=None):
        """Adds a file: its bytes, or for `None` as many bytes as `size` says, which hold nothing."""
        size = len(data) if data is not None else size
        crc = 0
        if data is not None and _options.crc32:
            for piece in _pieces(data):
                crc = zlib.crc32(piece, crc)
        encoded = name.encode()
        start = self._at
        is_large = size >= self._LARGE
        extra = struct.pack("<HHQQ", 1, 16, size, size) if is_large else b""
        padding = -(start + 30 + len(encoded) + len(extra) + 4) % 64
        extra += struct.pack("<HH", 0x4246, padding) + b"Z" * padding
        # Version 2.0 or 4.5, names in UTF-8, no compression, and the first date that the format has.
        about = (45 if is_large else 20, 0x800, 0, 0, 0x21, crc, *(min(size, self._LARGE),) * 2, len(encoded))
        self._write(struct.pack("<4s5H3L2H", b"PK\3\4", *about, len(extra)) + encoded + extra)
        if data is not None:
            for piece in _pieces(data):
                self._file.write(piece)
        else:
            self._leave_out(size)
        self._at += size
        self._directory.append((encoded, crc, size, start))

    def _leave_out(self, size):
        if size and hasattr(self._file, "seekable") and self._file.seekable():
            # A hole, where the file system has them.
            self._file.seek(size - 1, os.SEEK_CUR)
            self._file.write(b"\0")
            return
        for done in range(0, size, 1 << 20):
            self._file.write(bytes(min(1 << 20, size - done)))

    def close(self):
        """Writes the directory; the file stays open."""
        start = self._at
        for name, crc, size, at in self._directory:
            large = [size, size] if size >= self._LARGE else []
            large += [at] if at >= self._LARGE else []
            extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
            version = 45 if large else 20
            about = (version, version, 0x800, 0, 0, 0x21, crc, *(min(size, self._LARGE),) * 2, len(name), len(extra))
            self._write(struct.pack("<4s6H3L5H2L", b"PK\1\2", *about, 0, 0, 0, 0, min(at, self._LARGE)) + name + extra)
        n, size = len(self._directory), self._at - start
        if n >= 0xFFFF or size >= self._LARGE or start >= self._LARGE:
            self._file.write(struct.pack("<4sQHHLLQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, n, n, size, start))
            self._file.write(struct.pack("<4sLQL", b"PK\6\7", 0, start + size, 1))
        about = (min(n, 0xFFFF), min(n, 0xFFFF), min(size, self._LARGE), min(start, self._LARGE), 0)
        self._file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *about))


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    t = _window(storage, storage_offset, size, stride)
    if metadata:
        # Bits of views that PyTorch keeps in the file.
        t = t.conj() if metadata.get("conj") else t
        t = t._neg_view() if metadata.get("neg") else t
    return _with_grad(t, requires_grad)


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    from .storage import TypedStorage

    typed = TypedStorage(wrap_storage=storage.untyped(), dtype=dtype, _internal=True)
    if "_target" in vars(storage):
        typed._target = storage._target
    return _rebuild_tensor_v2(typed, storage_offset, size, stride, requires_grad, backward_hooks, metadata)


def _rebuild_tensor(storage, storage_offset, size, stride):
    return _window(storage, storage_offset, size, stride)


def _with_grad(t, requires_grad):
    if not isinstance(requires_grad, bool):
        raise RuntimeError("requires_grad must be a bool")
    return t.requires_grad_() if requires_grad else t


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    t = _C._ops.empty_strided(list(size), list(stride), dtype=dtype, device="meta")
    return _with_grad(t, requires_grad)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from .nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    p = _rebuild_parameter(data, requires_grad, backward_hooks)
    _set_state(p, state)
    return p


def _rebuild_from_type_v2(func, new_type, args, state):
    return _retyped(func(*args), new_type, state)


def _retyped(t, new_type, state):
    if type(t) is not new_type:
        t = t.as_subclass(new_type)
    own = getattr(type(t), "__setstate__", None)
    if own is not None and own is not getattr(_C.Tensor, "__setstate__", None):
        t.__setstate__(state)
    else:
        _set_state(t, state)
    return t


def _set_state(instance, state):
    """Sets attributes: of a dict, or of a pair of such a dict and one for slots."""
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        instance.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    return _with_grad(data.to(device=device, dtype=dtype), requires_grad)


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    return _with_grad(_C.from_numpy(data).to(device=device, dtype=dtype), requires_grad)


def _rebuild_sparse_tensor(layout, data):
    raise NotImplementedError("torch.load: sparse tensors are not supported")


def _rebuild_qtensor(storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks):
    raise NotImplementedError("torch.load: quantized tensors are not supported")


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device, requires_grad):
    raise NotImplementedError("torch.load: tensor subclasses without memory of their own are not supported")


def _device(*args):
    try:
        return _C.device(*args)
    except RuntimeError:
        # A device that is not here; its tensors are moved when they are loaded.
        return _C.device("cpu")


def _get_layout(name):
    return {"torch.strided": _C.strided}[name]


_REBUILD = {
    **{f"torch._utils.{f.__name__}": f for f in (
        _rebuild_tensor, _rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_meta_tensor_no_storage, _rebuild_parameter,
        _rebuild_parameter_with_state, _rebuild_device_tensor_from_cpu_tensor, _rebuild_device_tensor_from_numpy, _rebuild_sparse_tensor,
        _rebuild_qtensor, _rebuild_wrapper_subclass,
    )},
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type_v2,
    "torch.device": _device,
    "torch.serialization._get_layout": _get_layout,
}

# ---- what files without trust may name


def _sized(kind, itemsize):
    """A class whose constructor takes sizes, which are charged to the file's budget."""

    def call(machine, *args, **kwargs):
        counts = args[0] if len(args) == 1 and isinstance(args[0], Size) else args
        if counts and all(isinstance(n, int) and n >= 0 for n in counts):
            n = itemsize
            for count in counts:
                n *= count
            if not machine.budget.allocate(n):
                raise _C.OutOfMemoryError(
                    f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {n} bytes, which is too much for the size of this "
                    "file."
                )
        return kind(*args, **kwargs)

    return call


def _bounded_bytearray(machine, *args):
    if len(args) == 1 and isinstance(args[0], int) and not machine.budget.allocate(args[0]):
        raise MemoryError
    if len(args) >= 2:
        return bytearray(_bounded_encode(machine, *args))
    return bytearray(*args)


_TEXT_ENCODINGS = ("latin1", "latin-1", "ascii", "utf-8", "utf8")


def _bounded_encode(machine, text, encoding="utf-8", errors="strict"):
    import codecs

    # Other codecs take quadratic time, or double what they get.
    if encoding not in _TEXT_ENCODINGS and len(text) > 10_000:
        raise pickle.UnpicklingError(f"encode: {len(text)} characters are too many for the encoding {encoding!r}")
    return codecs.encode(text, encoding, errors)


def _hashing(kind):
    """A class that hashes what it is given; keys are charged to the file's budget."""

    def call(machine, *args):
        if args:
            items = list(args[0].items()) if isinstance(args[0], dict) else list(args[0])
            for item in items:
                is_pair = kind is collections.OrderedDict or isinstance(args[0], dict)
                machine.budget.key(items, item[0] if is_pair and isinstance(item, (tuple, list)) and item else item)
        return kind(*args)

    return call


def _from_type_by_machine(machine, func, new_type, args, state):
    return _retyped(machine.call(func, args), new_type, state)


_allowed = {}
_bounded_calls = {}


def _fill_allowed():
    from . import _legacy, storage
    from .nn.parameter import Parameter

    named = dict(_REBUILD)
    named["torch.Tensor"] = _C.Tensor
    named["torch.Size"] = Size
    named["torch.device"] = _C.device
    named["torch.nn.parameter.Parameter"] = Parameter
    named["torch.storage.TypedStorage"] = storage.TypedStorage
    named["torch.storage.UntypedStorage"] = storage.UntypedStorage
    named["collections.OrderedDict"] = collections.OrderedDict
    named["collections.Counter"] = collections.Counter
    named["builtins.set"] = set
    named["builtins.bytearray"] = bytearray
    named["builtins.complex"] = complex
    named["_codecs.encode"] = importlib.import_module("_codecs").encode
    named.update({f"torch.{k}": v for k, v in vars(_C).items() if isinstance(v, _C.dtype)})
    for name, dtype in _STORAGES.items():
        named[f"torch.{name}"] = named[f"torch.cuda.{name}"] = StorageType(dtype)
    for device in ("cpu", "cuda"):
        prefix = "torch." if device == "cpu" else "torch.cuda."
        named.update({prefix + name: kind for name, kind in _legacy.types(device).items()})
    named.update({f"torch.{name}": getattr(_legacy, name) for name in _legacy.types("cpu")})

    calls = {
        id(_C.Tensor): _sized(_C.Tensor, 4),
        id(storage.UntypedStorage): _sized(storage.UntypedStorage, 1),
        id(storage.TypedStorage): _sized(storage.TypedStorage, 4),
        id(bytearray): _bounded_bytearray,
        id(named["_codecs.encode"]): _bounded_encode,
        id(_rebuild_from_type_v2): _from_type_by_machine,
        id(_C.device): lambda machine, *args: _device(*args),
        **{id(kind): _hashing(kind) for kind in (set, collections.OrderedDict, collections.Counter)},
        **{id(v): _sized(v, v.dtype.itemsize) for v in named.values() if isinstance(v, _legacy.tensortype)},
    }
    _bounded_calls.update(calls)
    _allowed.update(named)


def _find_allowed(name):
    found = _user_safe.get(name)
    if found is not None:
        return found[0] if isinstance(found, tuple) else found
    return _allowed.get(name)


def _build(machine, instance, state):
    """What BUILD may do with weights only."""
    from .nn.parameter import Parameter
    from .storage import TypedStorage

    kind = type(instance)
    if kind is _C.Tensor:
        if not (isinstance(state, tuple) and len(state) == 4 and isinstance(state[0], TypedStorage)):
            raise TypeError(f"set_() received an invalid combination of arguments - got {_types_of(state)}")
        instance.set_(*state)
    elif kind is collections.OrderedDict:
        instance.__dict__.update(state)
    elif kind is Parameter or kind is TypedStorage or machine.is_pushed(kind):
        if hasattr(instance, "__setstate__"):
            instance.__setstate__(state)
        elif state is not None and not hasattr(instance, "__dict__") and not isinstance(state, tuple):
            raise AttributeError(f"{kind.__name__!r} object has no attribute '__dict__'")
        else:
            _set_state(instance, state)
    else:
        raise _weights_only().Refused(
            f"Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got {kind}"
        )


def _types_of(state):
    return f"({', '.join(type(x).__name__ for x in state)})" if isinstance(state, tuple) else type(state).__name__


def _weights_only():
    from . import _weights_only

    return _weights_only


_MAY_RUN_CODE = (
    "Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution. Do it "
    "only if you got the file from a trusted source."
)
_SINCE = "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`. "
_MORE = (
    "\n\nCheck the documentation of torch.load to learn more about types accepted by default with weights_only "
    "https://pytorch.org/docs/stable/generated/torch.load.html."
)


def _refusal(error):
    """The error that the user sees for one of the machine."""
    w = _weights_only()
    if isinstance(error, w.NotAllowed):
        text = (
            "Weights only load failed. This file can still be loaded, to do so you have two options, \033[1mdo those steps only if you "
            f"trust the source of the checkpoint\033[0m. \n\t(1) {_SINCE}{_MAY_RUN_CODE}\n\t(2) Alternatively, to load with "
            f"`weights_only=True` please check the recommended steps in the following error message.\n\tWeightsUnpickler error: {error}"
        )
    elif isinstance(error, w.Blocked):
        text = f"Weights only load failed. {_SINCE}{_MAY_RUN_CODE}\n\n\n{error}"
    else:
        text = (
            f"Weights only load failed. {_SINCE}{_MAY_RUN_CODE}\nPlease file an issue with the following so that we can make "
            f"`weights_only=True` compatible with your use case: WeightsUnpickler error: \n\n{error}"
        )
    return pickle.UnpicklingError(text + _MORE)


_user_safe = {}


def _module_in_file(module):
    """The name under which files know a module: the package is `torch` there."""
    return "torch" + module.removeprefix("pytpu") if module == "pytpu" or module.startswith("pytpu.") else module


def add_safe_globals(safe_globals):
    """Classes and functions, or pairs of one and the full name that files have for it, that
    ``load(weights_only=True)`` may call."""
    for g in safe_globals:
        it, name = g if isinstance(g, tuple) else (g, f"{g.__module__}.{g.__qualname__}")
        _user_safe[_module_in_file(name)] = g


def get_safe_globals():
    """What ``add_safe_globals`` added."""
    return list(_user_safe.values())


def clear_safe_globals():
    """Forgets what ``add_safe_globals`` added."""
    _user_safe.clear()


@contextlib.contextmanager
def safe_globals(safe_globals):
    """Adds to what ``load(weights_only=True)`` may call, inside a ``with`` only."""
    before = dict(_user_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _user_safe.clear()
        _user_safe.update(before)


class _Unpickler(pickle.Unpickler):
    """Reads pickles of files that the caller trusts."""

    def __init__(self, file, persistent_load, **kwargs):
        super().__init__(file, **kwargs)
        self._storage_of = persistent_load

    def persistent_load(self, saved):
        return self._storage_of(saved)

    def find_class(self, module, name):
        if module == "torch" or module.startswith("torch."):
            return _found_in_torch(module, name)
        return super().find_class(module, name)


def _found_in_torch(module, name):
    """What a file means by a name of PyTorch."""
    found = _REBUILD.get(f"{module}.{name}")
    if found is not None:
        return found
    if module == "torch.cuda" and name in _STORAGES:
        module = "torch"
    first, _, rest = name.partition(".")
    if module == "torch._C" and first in ("_VariableFunctions", "_VariableFunctionsClass"):
        # What holds PyTorch's functions.
        found, name = importlib.import_module("pytpu"), rest
    elif module == "torch._C._nn":
        found = importlib.import_module("pytpu.nn.functional")
        found = found if hasattr(found, first) else _C._ops
    else:
        found = importlib.import_module("pytpu" + module.removeprefix("torch"))
    for part in name.split(".") if name else ():
        found = getattr(found, part)
    return found


def _unpickle(text, persistent_load, weights_only, encoding, pickle_module=None, arguments=None):
    """The object that a pickle describes.

    Raises:
        pickle.UnpicklingError: with `weights_only`, what is on no list.
    """
    if weights_only:
        w = _weights_only()
        if not _allowed:
            _fill_allowed()
        machine = w.Machine(text, _find_allowed, persistent_load, _build, _bounded_calls, encoding)
        try:
            return machine.run()
        except w.Refused as error:
            raise _refusal(error) from None
    arguments = {"encoding": encoding, **(arguments or {})}
    if pickle_module is None or pickle_module is pickle:
        return _Unpickler(io.BytesIO(text), persistent_load, **arguments).load()

    class Other(pickle_module.Unpickler):
        def find_class(self, module, name):
            if module == "torch" or module.startswith("torch."):
                return _found_in_torch(module, name)
            return super().find_class(module, name)

        def persistent_load(self, saved):
            return persistent_load(saved)

    return Other(io.BytesIO(text), **arguments).load()


# ---- devices


_packages = []


def register_package(priority, tagger, deserializer):
    """Registers functions for storages of another device.

    Args:
        priority (int): functions of lower numbers are asked first.
        tagger: a function of a storage that returns the location to write into the file, or `None`.
        deserializer: a function of a storage and a location that returns the storage there, or `None`.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage):
    """The location that a file has for a storage, such as "cpu"."""
    for _, tagger, _ in _packages:
        location = tagger(storage)
        if location:
            return location
    device = storage.device
    return "cpu" if device.type == "cpu" else str(device)


def _tag(t):
    if not _packages:
        return "cpu" if t.is_cpu else str(t.device)
    from .storage import UntypedStorage

    return location_tag(UntypedStorage._of(t))


def default_restore_location(storage, location):
    """The storage at a location that a file has for it."""
    for _, _, deserializer in _packages:
        found = deserializer(storage, location)
        if found is not None:
            return found
    target = _target(location)
    return storage if target is None else storage.to(device=target)


def _target(location):
    """The device of a location; `None` for the host.

    Raises:
        RuntimeError: there is no such device.
    """
    if isinstance(location, bytes):
        location = location.decode("ascii")
    if not isinstance(location, str):
        raise TypeError(f"expected string or bytes-like object, got {type(location).__name__!r}")
    if location == "cpu":
        return None
    if location.startswith("cuda"):
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a CPU-only "
            "machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
        )
    kind, _, index = location.partition(":")
    if kind == "tpu" and (not index or index.isdecimal()):
        return location
    if kind == "meta":
        return "meta"
    raise RuntimeError(f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})")


def _placement(map_location):
    """A function of a loaded storage and its location in the file that says where its tensors go."""
    if isinstance(map_location, _C.device):
        map_location = "cpu" if map_location.type == "cpu" else str(map_location)
    if map_location is None or isinstance(map_location, dict):
        moved = map_location or {}

        def place(storage, location):
            _restore(storage, moved.get(location, location) if isinstance(location, str) else location)

    elif isinstance(map_location, (str, bytes)):

        def place(storage, location):
            _restore(storage, map_location)

    elif callable(map_location):

        def place(storage, location):
            untyped = storage.untyped()
            found = map_location(untyped, location)
            if found is None:
                _restore(storage, location)
            elif found is not untyped:
                _put(storage, found)

    else:
        raise TypeError(f"{type(map_location).__name__!r} object is not callable")
    return place


def _restore(storage, location):
    if _packages:
        untyped = storage.untyped()
        found = default_restore_location(untyped, location)
        if found is not untyped:
            _put(storage, found)
        return
    storage._target = _target(location)


def _put(storage, found):
    """Gives a storage the memory of another one, or of a tensor."""
    flat = found.reshape(-1) if isinstance(found, _C.Tensor) else found._flat()
    if flat.is_cpu:
        storage._tensor = flat.view(storage.dtype)
    else:
        # The same elements; tensors are moved one by one, see `_window`.
        storage._target = str(flat.device)


class _Storages:
    """The storages of a file while it is read.

    Args:
        read: a function of a key, a dtype and a number of elements that returns a flat tensor.
        place: see `_placement`.
    """

    def __init__(self, read, place):
        self._read = read
        self._place = place
        self.by_key = {}

    def load(self, saved):
        """What a persistent id of the file stands for."""
        if not isinstance(saved, tuple):
            raise AssertionError(f"saved_id must be a tuple, got {type(saved).__name__}")
        typename = _as_text(saved[0]) if saved else None
        if typename != "storage":
            raise AssertionError(f"Unknown typename for persistent_load, expected 'storage' but got '{typename}'")
        kind, key, location, count = saved[1:]
        return self.get(kind, _as_text(key), _as_text(location), count)

    def get(self, kind, key, location, count):
        """The storage of a key; it is read at the first time."""
        storage = self.by_key.get(key)
        if storage is not None:
            return storage
        from .storage import TypedStorage, UntypedStorage

        dtype = _C.uint8 if kind is UntypedStorage else kind.dtype
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"expected the class of a storage, but got {kind}")
        if type(count) is not int or not 0 <= count * dtype.itemsize < 1 << 63:
            raise TypeError(f"the number of elements of a storage must be an int that is not negative, but got {count!r:.40}")
        storage = TypedStorage._of(self._read(key, dtype, count))
        self._place(storage, location)
        self.by_key[key] = storage
        return storage

    def finish(self):
        """Moves storages that no tensor has moved."""
        for storage in self.by_key.values():
            target = vars(storage).pop("_target", None)
            if target is not None:
                storage._tensor = storage._tensor.to(target)


def _as_text(value):
    return value.decode("ascii") if isinstance(value, bytes) else value


# ---- the format before 1.6


_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001


def _next_pickle(f):
    """The bytes of a pickle, up to its end."""
    start = f.tell()
    if not f.read(1):
        raise EOFError("Ran out of input")
    f.seek(start)
    try:
        collections.deque(pickletools.genops(f), maxlen=0)
    except ValueError as error:
        raise pickle.UnpicklingError("Invalid magic number; corrupt file?") from error
    end = f.tell()
    f.seek(start)
    return f.read(end - start)


def _rest_of(f):
    """The file and the number of bytes that are left in it."""
    at = f.tell()
    try:
        f.seek(0, os.SEEK_END)
        end = f.tell()
        f.seek(at)
    except (OSError, ValueError, TypeError):
        # Compressed files have no end that is known.
        rest = f.read()
        return io.BytesIO(rest), len(rest)
    return f, end - at


def _load_legacy(f, place, weights_only, encoding, pickle_module, arguments):
    """Reads PyTorch's format before 1.6: pickles one after the other, and behind them the memory of each storage."""

    def plain():
        return _unpickle(_next_pickle(f), _no_storage, weights_only, encoding, pickle_module, arguments)

    if plain() != _MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    protocol = plain()
    if protocol != _PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {protocol}")
    about = plain()
    if not isinstance(about, dict) or not about.get("little_endian", True):
        raise RuntimeError("files written on big-endian machines are not supported")
    text = _next_pickle(f)
    f, left = _rest_of(f)

    def read(key, dtype, count):
        # The elements come later. What the file cannot hold is not allocated.
        nonlocal left
        left -= count * dtype.itemsize
        if left < 0:
            raise RuntimeError(f"unexpected EOF, expected {-left} more bytes. The file might be corrupted.")
        return _C._ops.empty([count], dtype=dtype)

    storages = _Storages(read, place)

    def load(saved):
        if isinstance(saved, tuple) and saved and _as_text(saved[0]) == "storage" and len(saved) == 6:
            *saved, view = saved
            storage = storages.load(tuple(saved))
            return storage if view is None else _view_of(storage, view)
        return storages.load(saved)

    result = _unpickle(text, load, weights_only, encoding, pickle_module, arguments)
    storages.finish()
    keys = plain()
    if not isinstance(keys, list):
        raise pickle.UnpicklingError("the list of keys is missing. The file might be corrupted.")
    for key in keys:
        storage = storages.by_key.get(_as_text(key))
        if storage is None:
            raise RuntimeError(f"the file has bytes for the storage {key!r}, which it does not describe")
        flat = storage._flat() if storage._tensor.is_cpu else storage._tensor
        size = f.read(8)
        if len(size) < 8 or int.from_bytes(size, "little") != flat.numel():
            raise RuntimeError(f"storage has wrong byte size: expected {flat.numel()} got {int.from_bytes(size, 'little')}")
        n = flat.numel() * flat.element_size()
        data = f.read(n)
        if len(data) != n:
            raise RuntimeError(f"unexpected EOF, expected {n - len(data)} more bytes. The file might be corrupted.")
        if not flat.is_meta:
            flat.copy_(_C._from_bytes(data, flat.dtype).view(flat.shape))
    return result


def _no_storage(saved):
    raise pickle.UnpicklingError("a storage in the head of the file. The file might be corrupted.")


def _view_of(storage, view):
    """A part of a storage, as files of PyTorch 0.1 have them."""
    from .storage import TypedStorage

    _, offset, count = view
    return TypedStorage._of(_C._strided(storage._tensor, offset, [count], [1]))


# ---- archives


def _failed(text):
    return RuntimeError(f"PytorchStreamReader failed {text}")


class _Archive:
    """The files in an archive that `save` has written, by their names without the folder.

    Stored files are read once, so that they cannot have more bytes than the archive; compressed ones, which `save` does not write, may grow
    by a factor.
    """

    _EXPANDED = 256 << 20
    _FACTOR = 32

    def __init__(self, file):
        if not hasattr(file, "seekable"):
            file = _Seekable(file)
        self._file = file
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, struct.error, ValueError, OverflowError, NotImplementedError, EOFError) as error:
            raise _failed(f"reading zip archive: {error or 'not a ZIP archive'}. The file might be corrupted.") from None
        infos = self._zip.infolist()
        if not infos or "/" not in infos[0].filename:
            first = infos[0].filename if infos else ""
            raise RuntimeError(f"file in archive is not in a subdirectory: {first}")
        self._root = infos[0].filename.partition("/")[0] + "/"
        self._infos = {i.filename: i for i in infos}
        if len(self._infos) != len(infos):
            raise _failed("reading zip archive: two files have the same name. The file might be corrupted.")
        at = file.tell()
        size = file.seek(0, os.SEEK_END)
        size = file.tell() if size is None else size
        file.seek(at)
        self._stored, self._expanded = size, self._EXPANDED + self._FACTOR * size

    def names(self):
        """All names."""
        return [name.removeprefix(self._root) for name in self._infos]

    def __contains__(self, name):
        return self._root + name in self._infos

    def _info(self, name):
        try:
            return self._infos[self._root + name]
        except KeyError:
            raise _failed(f"locating file {name}: file not found") from None

    def size(self, name):
        """How many bytes a file has."""
        return self._info(name).file_size

    def start(self, name):
        """Where the bytes of a stored file begin; `None` if it is compressed."""
        info = self._info(name)
        if info.flag_bits & 1:
            raise _failed(f"reading file {name}: it is encrypted")
        if info.compress_type != zipfile.ZIP_STORED:
            return None
        if info.file_size != info.compress_size:
            raise _failed(f"reading file {name}: its sizes differ. The file might be corrupted.")
        self._stored -= info.file_size
        if self._stored < 0:
            raise _failed(f"reading file {name}: it is larger than the archive. The file might be corrupted.")
        self._file.seek(info.header_offset)
        header = self._file.read(30)
        if len(header) < 30 or header[:4] != b"PK\3\4":
            raise _failed(f"reading file {name}: its header is damaged. The file might be corrupted.")
        return info.header_offset + 30 + sum(struct.unpack("<2H", header[26:]))

    def read(self, name):
        """The bytes of a file.

        Raises:
            RuntimeError: there is none, it is damaged, or it is compressed and too large for the size of the archive.
        """
        info = self._info(name)
        start = self.start(name)
        if start is None:
            return self._decompressed(info, name)
        self._file.seek(start)
        data = self._file.read(info.file_size)
        if len(data) != info.file_size:
            raise _failed(f"reading file {name}: file read failed. The file might be corrupted.")
        # `set_crc32_options(False)` leaves the checksum out.
        if info.CRC and zlib.crc32(data) != info.CRC:
            raise _failed(f"reading file {name}: its checksum is wrong. The file might be corrupted.")
        return data

    def _decompressed(self, info, name):
        # Of a pickle, every byte can become an object.
        limit = (4 << 20) + self._FACTOR * info.compress_size if name == "data.pkl" else self._expanded
        if info.file_size > limit:
            raise _failed(
                f"reading file {name}: {info.compress_size} compressed bytes become {info.file_size}, which is refused. Store the "
                "archive without compression to load it."
            )
        self._expanded -= info.file_size
        try:
            return self._zip.read(info)
        except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, NotImplementedError) as error:
            raise _failed(f"reading file {name}: {error}. The file might be corrupted.") from None
        except Exception as error:
            if type(error).__name__ != "LZMAError":
                raise
            raise _failed(f"reading file {name}: {error}. The file might be corrupted.") from None


class _Seekable:
    """A file object that has no more than `read`, `seek` and `tell`, for `zipfile`."""

    def __init__(self, file):
        self.read, self.seek, self.tell = file.read, file.seek, file.tell

    def seekable(self):
        """Always `True`."""
        return True


def _opened_archive(f):
    """The archive, checked for what every file of `save` has."""
    archive = _Archive(f)
    if "version" not in archive:
        raise RuntimeError(
            'Expected hasRecord("version") to be true, but got false.  (Could this error message be improved?  If so, please report an '
            "enhancement request to PyTorch.)"
        )
    text = archive.read("version").strip()
    if not text.isdigit() or len(text) > 9:
        raise RuntimeError(f"the version of the file is not a number, but {text[:20]!r}")
    if int(text) > 10:
        raise RuntimeError(
            f"Attempted to read a PyTorch file with version {int(text)}, but the maximum supported version for reading is 10. The version "
            "of your PyTorch installation may be too old, please upgrade PyTorch to latest version to mitigate this issue."
        )
    return archive


def _is_archive(f):
    """Whether an archive starts here."""
    at = f.tell()
    head = f.read(4)
    f.seek(at)
    return head == b"PK\3\4"


class PyTorchFileReader:
    """The records of a file that ``save`` has written, by name.

    Raises:
        RuntimeError: it is no such file.
    """

    def __init__(self, file):
        self._file = open(file, "rb") if isinstance(file, (str, os.PathLike)) else file
        self._archive = _Archive(self._file)

    def get_all_records(self):
        """All names."""
        return self._archive.names()

    def has_record(self, name):
        """Whether there is one of this name."""
        return name in self._archive

    def get_record(self, name):
        """Its bytes."""
        return _Archive(self._file).read(name)

    def get_record_size(self, name):
        """How many bytes it has."""
        return self._archive.size(name)

    def get_record_offset(self, name):
        """Where its bytes begin."""
        return _Archive(self._file).start(name)

    def get_storage_from_record(self, name, numel, dtype):
        """A tensor of no elements, whose storage holds the record."""
        return _C._from_bytes(self.get_record(name), dtype)[:0]


def get_unsafe_globals_in_checkpoint(f):
    """The full names in a file that `load` would refuse: those of classes and functions that it may not call.

    Raises:
        pickle.UnpicklingError: an opcode that `load` refuses.
    """
    with open(f, "rb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f) as file:
        if not _is_archive(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        text = _opened_archive(file).read("data.pkl")
    if not _allowed:
        _fill_allowed()
    return [name for name in _weights_only().names_in(text) if _find_allowed(name) is None]


# ---- options


class LoadEndianness(enum.Enum):
    """The byte order of files that do not say theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


MAP_SHARED = getattr(_mmap, "MAP_SHARED", 1)
MAP_PRIVATE = getattr(_mmap, "MAP_PRIVATE", 2)
DEFAULT_PROTOCOL = 2


class _Options:
    crc32 = True
    endianness = None
    mmap_flags = MAP_PRIVATE


class _State(threading.local):
    """What holds inside a ``with`` in one thread."""

    skip_data = False


_options, _state = _Options(), _State()


def get_crc32_options():
    """Whether ``save`` computes a checksum of each record."""
    return _options.crc32


def set_crc32_options(compute_crc32):
    """Sets whether ``save`` computes a checksum of each record, which ``load`` checks.

    Without it, saving is a little quicker, and other programs may take the archive for damaged.
    """
    _options.crc32 = bool(compute_crc32)


def get_default_load_endianness():
    """The byte order of files that do not say theirs; ``None`` for little."""
    return _options.endianness


def set_default_load_endianness(endianness):
    """Sets the byte order of files that do not say theirs: a ``LoadEndianness`` or ``None``."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _options.endianness = endianness


def get_default_mmap_options():
    """``MAP_PRIVATE`` or ``MAP_SHARED``: whether writes to tensors of ``load(mmap=True)`` stay in the process."""
    return _options.mmap_flags


class set_default_mmap_options:
    """Sets whether writes to tensors of ``load(mmap=True)`` stay in the process (``MAP_PRIVATE``) or reach the file (``MAP_SHARED``).

    Also a context manager, which restores what was set before.
    """

    def __init__(self, flags):
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got "
                f"{flags}"
            )
        self.prev = _options.mmap_flags
        _options.mmap_flags = flags

    def __enter__(self):
        return None

    def __exit__(self, *_):
        _options.mmap_flags = self.prev


class skip_data:
    """Inside a ``with``, ``save`` leaves room for the bytes of storages without writing them, and ``load`` does not read them.

    Args:
        materialize_fake_tensors (bool): has no effect: there are no fake tensors.
    """

    def __init__(self, materialize_fake_tensors=False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        self._before, _state.skip_data = _state.skip_data, True

    def __exit__(self, *_):
        _state.skip_data = self._before


# ---- load


def _is_on(name):
    return os.environ.get(name, "0").lower() in ("1", "y", "yes", "true")


def _decide_weights_only(weights_only, pickle_module):
    """What the argument and the environment together mean."""
    is_forced, is_forced_off = _is_on("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), _is_on("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if is_forced and is_forced_off:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both were set."
        )
    if is_forced:
        weights_only = True
    elif weights_only is None and is_forced_off:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument was not explicitly passed to "
            "`torch.load`, forcing weights_only=False.",
            stacklevel=3,
        )
        weights_only = False
    if weights_only is None:
        return pickle_module is None
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return bool(weights_only)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Reads an object that ``save``, here or in PyTorch, has written.

    Unless ``weights_only=False``, nothing but tensors, storages and plain containers is made: a file cannot run code, nor change classes and
    functions. ``TORCH_FORCE_WEIGHTS_ONLY_LOAD=1`` makes that so for every call; ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1`` changes the default.

    Args:
        f: a path, or an object with ``read``, ``seek`` and ``tell``.
        map_location: a device, a dict from locations to locations, or a function of a storage and a location, that says where tensors go.
        pickle_module: reads the pickle, for files that are trusted.
        weights_only (bool): see above.
        mmap (bool): whether the file may be mapped. Files are read all the same, so that a file that changes later does no harm; with
            ``set_default_mmap_options(MAP_SHARED)`` they are mapped, and writes reach the file.
        encoding (str): of the byte strings of Python 2.

    Raises:
        pickle.UnpicklingError: the file asks for something that is not allowed, or is damaged.
        RuntimeError: it is damaged, or there is no such device.
    """
    weights_only = _decide_weights_only(weights_only, pickle_module)
    encoding = pickle_load_args.pop("encoding", "utf-8")
    if weights_only and pickle_load_args:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
        raise TypeError(f"Unpickler.__init__() got an unexpected keyword argument '{next(iter(pickle_load_args))}'")
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    place = _placement(map_location)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            if mmap and not _is_archive(file):
                raise RuntimeError(
                    f"mmap can only be used with files saved with `torch.save({os.fspath(f)}, "
                    "_use_new_zipfile_serialization=True), please torch.save your checkpoint with this option in order to use mmap."
                )
            path = os.fspath(f) if mmap and _options.mmap_flags == MAP_SHARED else None
            return _load(file, place, weights_only, encoding, pickle_module, pickle_load_args, path)
    for name in ("seek", "tell", "read"):
        if not hasattr(f, name):
            raise AttributeError(
                f"{type(f).__name__!r} object has no attribute {name!r}. You can only torch.load from a file that is seekable. "
                "Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
            )
    return _load(f, place, weights_only, encoding, pickle_module, pickle_load_args)


def _load(f, place, weights_only, encoding, pickle_module, arguments, mapped=None):
    if not _is_archive(f):
        return _load_legacy(f, place, weights_only, encoding, pickle_module, arguments)
    archive = _opened_archive(f)
    is_swapped = False
    if "byteorder" in archive:
        order = archive.read("byteorder")
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order[:40].decode('ascii', 'replace')}")
        is_swapped = order == b"big"
    elif _options.endianness is LoadEndianness.BIG:
        is_swapped = True
    bytes_of_file = None
    if mapped is not None:
        from . import _memory

        bytes_of_file = _memory.map_file(mapped, True, os.fstat(f.fileno()).st_size)

    def read(key, dtype, count):
        name = f"data/{key}"
        size = count * dtype.itemsize
        if archive.size(name) != size:
            raise RuntimeError(
                f"record size ({archive.size(name)} bytes) does not match expected size ({size} bytes = {count} elements * "
                f"{dtype.itemsize} bytes/element) for dtype {dtype._scalar_type}"
            )
        if _state.skip_data:
            archive.start(name)
            return _C._ops.zeros([count], dtype=dtype)
        if bytes_of_file is not None and not is_swapped:
            start = archive.start(name)
            if start is not None and start % dtype.itemsize == 0 and size:
                return _memory.part(bytes_of_file, start, size).view(dtype)
        data = archive.read(name)
        if is_swapped:
            from .storage import swapped

            data = swapped(data, dtype)
        return _C._from_bytes(data, dtype)

    storages = _Storages(read, place)
    result = _unpickle(archive.read("data.pkl"), storages.load, weights_only, encoding, pickle_module, arguments)
    storages.finish()
    return result
