"""``torch.save`` and ``torch.load``: PyTorch's own file format, both ways.

A file is an uncompressed zip archive: ``data.pkl`` holds the objects, with tensors as calls of
``torch._utils._rebuild_tensor_v2`` on storages; each storage's bytes are a file ``data/N``. Names of this package are written
as ``torch``'s and read back as this package's, so PyTorch reads what is written here. Tensors go back to the device they came
from, unless ``map_location`` says otherwise, as it must where there is no such device.
"""

import collections
import contextlib
import copyreg
import importlib
import io
import os
import pickle
import pickletools
import types
import typing
import zipfile

from . import _C, _pickling
from ._pickling import _get_layout  # noqa: F401
from ._size import Size

MAP_LOCATION = typing.Union[typing.Callable[[_C.Tensor, str], _C.Tensor], _C.device, str, dict[str, str], None]
DEFAULT_PROTOCOL = 2

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


class _Storage:
    """The memory of tensors, while it is written or read; read, it may go to the device ``name``."""

    def __init__(self, tensor, name=None):
        self.tensor = tensor
        self.name = name

    def window(self, offset, size, stride):
        """A tensor that looks at this memory."""
        if self.name is None:
            return _C._strided(self.tensor, offset, size, stride)
        if not self.tensor.is_cpu:
            is_all = list(self.tensor.shape) == size and self.tensor.is_contiguous() and offset == 0
            return self.tensor.detach() if is_all else _C._strided(self.tensor, offset, size, stride)
        window = _C._strided(self.tensor, offset, size, stride)
        if window.is_contiguous() and window.numel() == self.tensor.numel():
            # The usual tensor: a memory of its own, which then is no view there.
            self.tensor = window.to(self.name)
            return self.tensor
        self.tensor = self.tensor.to(self.name)
        return _C._strided(self.tensor, offset, size, stride)


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
        if not isinstance(obj, _Storage):
            return None
        t = obj.tensor
        key = (t._storage_id(), t.dtype)
        if key not in self.keys:
            self.keys[key] = str(len(self.storages))
            self.storages[self.keys[key]] = _whole_storage(t)
            self.kept.append(t)
        data = self.storages[self.keys[key]]
        saved = ("storage", _Global("torch", _STORAGE_OF[t.dtype]), self.keys[key], str(t.device), data.numel())
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
    d = t.detach().as_subclass(_C.Tensor)
    # A file holds memory, not what a view makes of it.
    d = d.resolve_conj().resolve_neg()
    args = (_Storage(d), d.storage_offset(), tuple(d.shape), tuple(d.stride()), t.requires_grad, hooks)
    return _Global("torch._utils", "_rebuild_tensor_v2"), args


def save(obj, f, pickle_module=pickle, pickle_protocol=2, _use_new_zipfile_serialization=True):
    """Writes an object to a file, a path or an open file; in PyTorch's format before 1.6 where the new one is not wanted."""
    is_path = isinstance(f, (str, os.PathLike))
    if not is_path and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    text = io.BytesIO()
    p = _Pickler(text, pickle_protocol)
    p.is_legacy = not _use_new_zipfile_serialization
    p.dump(obj)
    if p.is_legacy:
        with open(f, "wb") if is_path else contextlib.nullcontext(f) as file:
            _write_legacy(file, p, text.getvalue(), pickle_protocol)
        return
    if is_path:
        folder = os.path.dirname(os.fspath(f))
        if folder and not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {folder} does not exist.")
    name = "archive"
    if is_path:
        name = os.path.splitext(os.path.basename(os.fspath(f)))[0] or name
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as z:
        _write(z, f"{name}/data.pkl", text.getvalue())
        _write(z, f"{name}/byteorder", b"little")
        for key, t in p.storages.items():
            _write(z, f"{name}/data/{key}", _C._to_bytes(t))
        _write(z, f"{name}/version", b"3\n")


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
        file.write(_C._to_bytes(t))


def _write(z, name, data):
    """Adds a file whose bytes begin at a multiple of 64, so that they can be mapped."""
    info = zipfile.ZipInfo(name)
    start = z.fp.tell() + 30 + len(name.encode())
    padding = -(start + 4) % 64
    info.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    z.writestr(info, data)


def _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks, metadata=None):
    t = storage.window(offset, list(size), list(stride))
    return t.requires_grad_() if requires_grad else t


def _rebuild_tensor(storage, offset, size, stride):
    return _rebuild_tensor_v2(storage, offset, size, stride, False, None)


def _rebuild_parameter(data, requires_grad, hooks):
    from .nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, hooks, state):
    p = _rebuild_parameter(data, requires_grad, hooks)
    p.__dict__.update(state)
    return p


def _rebuild_from_type_v2(rebuild, kind, args, state):
    t = rebuild(*args)
    if kind is not _C.Tensor:
        t = t.as_subclass(kind)
    if isinstance(state, tuple):
        attributes, slots = state
        for name, value in slots.items():
            setattr(t, name, value)
        state = attributes
    t.__dict__.update(state or {})
    return t


def _device(*args):
    try:
        return _C.device(*args)
    except RuntimeError:
        # A device that is not here; its tensors are moved when they are loaded.
        return _C.device("cpu")


_SAFE = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor_v2,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter_with_state,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type_v2,
    ("torch", "Size"): Size,
    ("torch", "device"): _device,
    ("torch", "Tensor"): _C.Tensor,
    ("torch.nn.parameter", "Parameter"): _rebuild_parameter,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "Counter"): collections.Counter,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "complex"): complex,
    ("_codecs", "encode"): __import__("codecs").encode,
}
_SAFE.update({(m[0].replace("builtins", "__builtin__"), m[1]): v for m, v in list(_SAFE.items()) if m[0] == "builtins"})
_SAFE.update({("torch", k): v for k, v in _STORAGES.items()})
_SAFE.update({("torch", k): v for k, v in vars(_C).items() if isinstance(v, _C.dtype)})
_user_safe = {}


def _module_in_file(module):
    """The name under which files know a module: the package is `torch` there."""
    return "torch" + module.removeprefix("pytpu") if module == "pytpu" or module.startswith("pytpu.") else module


def add_safe_globals(safe_globals):
    """Classes and functions, or pairs of one and the full name that files have for it, that
    ``load(weights_only=True)`` may call."""
    for g in safe_globals:
        it, name = g if isinstance(g, tuple) else (g, f"{g.__module__}.{g.__qualname__}")
        module, _, attribute = name.rpartition(".")
        _user_safe[(_module_in_file(module), attribute)] = g


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
    def __init__(self, file, read, place, weights_only, encoding):
        super().__init__(file, encoding=encoding)
        self._read = read
        self._place = place
        self._weights_only = weights_only
        self._storages = {}

    def find_class(self, module, name):
        known = _SAFE.get((module, name)) or _user_safe.get((module, name))
        known = known[0] if isinstance(known, tuple) else known
        if known is not None and not (name == "Parameter" and not self._weights_only):
            return known
        if self._weights_only:
            full = f"{module.replace('__builtin__', 'builtins')}.{name}"
            raise pickle.UnpicklingError(
                "Weights only load failed. This file can still be loaded, to do so you have two options, \033[1mdo those steps "
                "only if you trust the source of the checkpoint\033[0m. \n\t(1) In PyTorch 2.6, we changed the default value "
                "of the `weights_only` argument in `torch.load` from `False` to `True`. Re-running `torch.load` with "
                "`weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution. Do it only "
                "if you got the file from a trusted source.\n\t(2) Alternatively, to load with `weights_only=True` please "
                "check the recommended steps in the following error message.\n\tWeightsUnpickler error: Unsupported global: "
                f"GLOBAL {full} was not an allowed global by default. Please use "
                f"`torch.serialization.add_safe_globals([{full}])` or the `torch.serialization.safe_globals([{full}])` "
                "context manager to allowlist this global if you trust this class/function.\n\nCheck the documentation of "
                "torch.load to learn more about types accepted by default with weights_only "
                "https://pytorch.org/docs/stable/generated/torch.load.html."
            )
        if module == "torch" or module.startswith("torch."):
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
        return super().find_class(module, name)

    def persistent_load(self, saved):
        kind, dtype, key, location = saved[:4]
        if kind != "storage":
            raise pickle.UnpicklingError(f"unknown persistent id {kind!r}")
        if key not in self._storages:
            if not isinstance(dtype, _C.dtype):
                dtype = _C.uint8
            flat = _C._from_bytes(self._read(key), dtype)
            self._storages[key] = _Storage(flat, self._place(flat, location))
        return self._storages[key]


def _placement(map_location):
    """Where a storage's tensors go: a function of the flat tensor and the location that was saved."""
    if map_location is None:
        return lambda flat, location: location if location.startswith("tpu") else None
    if callable(map_location) and not isinstance(map_location, _C.device):

        def place(flat, location):
            moved = map_location(flat, location)
            return moved.device if isinstance(moved, _C.Tensor) and not moved.is_cpu else None

        return place
    if isinstance(map_location, dict):
        return lambda flat, location: map_location.get(location)
    device = _C.device(map_location)
    return lambda flat, location: None if device.type == "cpu" else device


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
    return io.BytesIO(f.read(end - start))


class _Sizes(_Unpickler):
    """Reads objects whose memory is not known yet, for the size of an element of each storage."""

    def __init__(self, file, weights_only, encoding):
        super().__init__(file, None, None, weights_only, encoding)
        self.sizes = {}

    def persistent_load(self, saved):
        dtype, key, _, count = saved[1:5]
        dtype = dtype if isinstance(dtype, _C.dtype) else _C.uint8
        self.sizes[key] = dtype.itemsize
        return _Storage(_C._from_bytes(bytes(count * dtype.itemsize), dtype))


def _load_legacy(f, place, weights_only, encoding):
    """Reads PyTorch's format before 1.6: pickles one after the other, and behind them the memory of each storage."""

    def plain():
        return _Unpickler(_next_pickle(f), None, place, weights_only, encoding).load()

    if plain() != _MAGIC:
        raise pickle.UnpicklingError("Invalid magic number; corrupt file?")
    protocol = plain()
    if protocol != _PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {protocol}")
    if not plain().get("little_endian", True):
        raise RuntimeError("files written on big-endian machines are not supported")
    # How long a storage's memory is, only the objects say, which come first and need it: they are read twice.
    objects = _next_pickle(f)
    reader = _Sizes(objects, weights_only, encoding)
    reader.load()
    data = {}
    for key in plain():
        size = int.from_bytes(f.read(8), "little") * reader.sizes[key]
        data[key] = f.read(size)
        if len(data[key]) != size:
            raise EOFError("unexpected EOF. The file might be corrupted.")
    objects.seek(0)
    return _Unpickler(objects, data.__getitem__, place, weights_only, encoding).load()


class PyTorchFileReader:
    """The records of a file that ``save`` has written, by name.

    Raises:
        RuntimeError: it is no such file.
    """

    def __init__(self, file):
        try:
            self._zip = zipfile.ZipFile(file)
        except zipfile.BadZipFile:
            raise RuntimeError("PytorchStreamReader failed reading zip archive: not a ZIP archive.") from None
        self._root = self._zip.namelist()[0].partition("/")[0] + "/"

    def get_all_records(self):
        """All names."""
        return [name.removeprefix(self._root) for name in self._zip.namelist()]

    def has_record(self, name):
        """Whether there is one of this name."""
        return self._root + name in self._zip.namelist()

    def get_record(self, name):
        """Its bytes."""
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found.")
        return self._zip.read(self._root + name)

    def get_record_size(self, name):
        """How many bytes it has."""
        return len(self.get_record(name))

    def get_storage_from_record(self, name, numel, dtype):
        """A tensor of no elements, whose storage holds the record."""
        return _C._from_bytes(self.get_record(name), dtype)[:0]


def get_unsafe_globals_in_checkpoint(f):
    """The full names in a file that `load` would refuse: those of classes and functions that it may not call."""
    names = []
    with open(f, "rb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        with zipfile.ZipFile(file) as z:
            text = z.read(next(n for n in z.namelist() if n.endswith("/data.pkl")))
    strings = []
    for code, argument, _ in pickletools.genops(text):
        if "UNICODE" in code.name:
            strings.append(argument)
        elif code.name == "GLOBAL":
            names.append(tuple(argument.split(" ", 1)))
        elif code.name == "STACK_GLOBAL":
            names.append(tuple(strings[-2:]))
    return list(dict.fromkeys(".".join(n) for n in names if n not in _SAFE and n not in _user_safe))


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, encoding="utf-8"):
    """Reads an object that ``save``, here or in PyTorch, has written.

    Unless ``weights_only=False``, nothing but tensors and plain containers is made: a file cannot run code. Files are read, whether
    ``mmap`` says that they may be mapped or not; it is refused where PyTorch cannot.
    """
    weights_only = True if weights_only is None else weights_only
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            if mmap and not zipfile.is_zipfile(file):
                raise RuntimeError(
                    f"mmap can only be used with files saved with `torch.save({os.fspath(f)}, "
                    "_use_new_zipfile_serialization=True), please torch.save your checkpoint with this option in order to use mmap."
                )
            file.seek(0)
            return load(file, map_location, weights_only=weights_only, encoding=encoding)
    for name in ("seek", "tell", "read"):
        if not hasattr(f, name):
            raise AttributeError(
                f"{type(f).__name__!r} object has no attribute {name!r}. You can only torch.load from a file that is seekable. "
                "Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
            )
    start = f.tell()
    is_zip = zipfile.is_zipfile(f)
    f.seek(start)
    if not is_zip:
        return _load_legacy(f, _placement(map_location), weights_only, encoding)
    with zipfile.ZipFile(f) as z:
        pkl = next((n for n in z.namelist() if n.endswith("/data.pkl") and n.count("/") == 1), None)
        if pkl is None:
            raise RuntimeError("PytorchStreamReader failed locating file data.pkl: file not found")
        root = pkl.removesuffix("data.pkl")
        if f"{root}byteorder" in z.namelist() and z.read(f"{root}byteorder") != b"little":
            raise RuntimeError("files written on big-endian machines are not supported")
        unpickler = _Unpickler(
            io.BytesIO(z.read(pkl)), lambda key: z.read(f"{root}data/{key}"), _placement(map_location), weights_only, encoding
        )
        return unpickler.load()
