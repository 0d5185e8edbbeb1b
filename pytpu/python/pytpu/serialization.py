"""`torch.save` and `torch.load`: PyTorch's file format, both ways.

A file is an uncompressed zip archive. `data.pkl` has the objects. Tensors are calls of
`torch._utils._rebuild_tensor_v2` on storages, and the bytes of storage `N` are the record `data/N`. Names of this
package are written as names of `torch`, and read back as names of this package, so PyTorch reads these files. Tensors
go back to the device that they came from, unless `map_location` names another one.

`load` reads pickles with the machine of `_weights_only.py`, unless the caller trusts the file. `docs/files.md` states
what both functions guarantee.
"""

from __future__ import annotations

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
import threading
import types
import typing
import warnings

from . import _C, _archive, _file_globals, _file_places, _pickling, _weights_only
from ._file_globals import StorageType as StorageType
from ._file_places import (
    default_restore_location as default_restore_location,
    location_tag as location_tag,
    register_package as register_package,
)
from ._pickling import _get_layout as _get_layout
from ._size import Size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from pytpu import Tensor


# Functions that files name, for trusted files and others.
_SAFE = _file_globals.REBUILD

MAP_LOCATION: typing.TypeAlias = typing.Callable[[_C.Tensor, str], _C.Tensor] | _C.device | str | dict[str, str] | None


class _Global:
    """A name to write into the pickle as it is."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *args):
        raise TypeError("stands for a name in a file")


class _Storage:
    """The memory of a tensor, while it is written."""

    def __init__(self, tensor, is_untyped=False):
        self.tensor = tensor
        self.is_untyped = is_untyped


class _Pickler(pickle._Pickler):
    dispatch: typing.ClassVar[dict[type, typing.Any]] = {**pickle._Pickler.dispatch}
    is_legacy = False

    def __init__(self, file, protocol):
        super().__init__(file, protocol)
        self.dispatch_table = {k: v for k, v in copyreg.dispatch_table.items() if k not in _pickling.REDUCERS}
        self.storages = {}
        self.keys = {}
        # Memory that is saved as a storage has one dtype in the file, so that its tensors keep sharing it.
        self.stored = set()
        self.dtypes = {}
        self.kept = []

    def persistent_id(self, obj):
        if type(obj) is not _Storage:
            obj = _as_saved(obj) if type(obj).__name__ in ("TypedStorage", "UntypedStorage") else None
            if obj is None:
                return None
            self.stored.add(obj.tensor._storage_id())
        t = obj.tensor
        key = (t._storage_id(), t.dtype)
        if self.dtypes.setdefault(key[0], t.dtype) != t.dtype and key[0] in self.stored:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        if key not in self.keys:
            self.keys[key] = str(len(self.storages))
            self.storages[self.keys[key]] = _whole_storage(t)
            self.kept.append(t)
        data = self.storages[self.keys[key]]
        kind = (
            _Global("torch.storage", "UntypedStorage")
            if obj.is_untyped
            else _Global("torch", _file_globals.STORAGE_OF[t.dtype])
        )
        # The size of untyped memory is in bytes.
        size = data.nbytes if obj.is_untyped else data.numel()
        saved = ("storage", kind, self.keys[key], _file_places.tag(t), size)
        return (*saved, None) if self.is_legacy else saved

    def reducer_override(self, obj):
        if isinstance(obj, _C.Tensor):
            # The result of a functional collective is saved as a plain tensor.
            if hasattr(obj, "trigger_wait"):
                obj = obj.trigger_wait()
            # A sharded tensor has no elements of its own.
            return obj.__reduce_ex__(2) if hasattr(obj, "device_mesh") else _reduce_tensor(obj)
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
        # The plain tensor, then its class and attributes.
        plain, args = _reduce_plain(t, hooks)
        return _Global("torch._tensor", "_rebuild_from_type_v2"), (plain, type(t), args, state)
    return _reduce_plain(t, hooks)


def _without_bits(t):
    """Return a view of the memory of `t`, without conjugation and negation, and a list of the dict that restores them.

    The list is empty if there is nothing to restore.
    """
    bits = {name: True for name, is_set in (("conj", t.is_conj()), ("neg", t.is_neg())) if is_set}
    t = t.conj() if "conj" in bits else t
    t = t._neg_view() if "neg" in bits else t
    return t, [bits] if bits else []


def _reduce_plain(t, hooks):
    if t.is_meta:
        args = (t.dtype, tuple(t.shape), tuple(t.stride()), t.requires_grad)
        return _Global("torch._utils", "_rebuild_meta_tensor_no_storage"), args
    d = t.detach().as_subclass(_C.Tensor)
    d, metadata = _without_bits(d)
    window = (d.storage_offset(), tuple(d.shape), tuple(d.stride()), t.requires_grad, hooks)
    if d.dtype not in _file_globals.STORAGE_OF:
        # PyTorch has no class of storages for newer dtypes.
        args = (_Storage(d, is_untyped=True), *window, d.dtype, *metadata)
        return _Global("torch._utils", "_rebuild_tensor_v3"), args
    return _Global("torch._utils", "_rebuild_tensor_v2"), (_Storage(d), *window, *metadata)


def _as_saved(obj):
    """Return the form of a storage in a file, or `None` for other objects."""
    from . import storage as there

    if not isinstance(obj, (there.TypedStorage, there.UntypedStorage)):
        return None
    return _Storage(obj._flat(), isinstance(obj, there.UntypedStorage))


def save(
    obj: object,
    f: str | os.PathLike[str] | typing.IO[bytes],
    pickle_module: ModuleType = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object to a file, in PyTorch's format.

    A regular file is replaced when everything is written and on the disk. If the process is killed or the disk is full,
    the old file stays whole.

    Args:
        obj: Tensors, storages, and everything that `pickle` takes.
        f: A path, or an object with `write`. If it has `flush`, that is called at the end.
        pickle_module: Accepted for compatibility. `pickle` is used.
        pickle_protocol: Protocol of `pickle`. `load(weights_only=True)` reads protocol 2 only.
        _use_new_zipfile_serialization: If `False`, write PyTorch's format before 1.6.

    Raises:
        RuntimeError: If the folder does not exist.
        OSError: If the file cannot be written.

    Example:
        >>> import pytpu as torch
        >>> import io
        >>> buffer = io.BytesIO()
        >>> torch.save({"w": torch.arange(3), "step": 7}, buffer)
        >>> _ = buffer.seek(0)
        >>> torch.load(buffer)
        {'w': tensor([0, 1, 2]), 'step': 7}
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
    if isinstance(f, (str, os.PathLike)):
        folder, base = os.path.split(os.path.abspath(os.fspath(f)))
        if not p.is_legacy and not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {os.path.dirname(os.fspath(f))} does not exist.")
        name = os.path.splitext(base)[0] or name
    with _opened_to_write(f) if is_path else contextlib.nullcontext(f) as file:
        if p.is_legacy:
            _write_legacy(file, p, text.getvalue(), pickle_protocol)
        else:
            _write_archive(file, name, p, text.getvalue())
        # The file may be read by its name before the caller closes it.
        if not is_path and hasattr(file, "flush"):
            file.flush()


def _opened_to_write(path):
    from ._replace_file import replacing

    return replacing(path)


def _write_archive(file, name, pickler, text):
    z = _archive.ZipWriter(file, _options.crc32)
    z.add(f"{name}/data.pkl", memoryview(text))
    z.add(f"{name}/byteorder", memoryview(b"little"))
    for key, t in pickler.storages.items():
        z.add(f"{name}/data/{key}", None if _state.skip_data else _archive.memory_of(t), t.numel() * t.element_size())
    z.add(f"{name}/version", memoryview(b"3\n"))
    z.close()


def _write_legacy(file, pickler, text, protocol):
    """Write pickles one after the other, then the memory of each storage."""
    sizes = {"short": 2, "int": 4, "long": 4}
    for part in (_MAGIC, _PROTOCOL, {"protocol_version": _PROTOCOL, "little_endian": True, "type_sizes": sizes}):
        pickle.dump(part, file, protocol)
    file.write(text)
    keys = sorted(pickler.storages)
    pickle.dump(keys, file, protocol)
    for key in keys:
        t = pickler.storages[key]
        file.write(t.numel().to_bytes(8, "little"))
        for piece in _archive.pieces(_archive.memory_of(t)):
            file.write(piece)


def _module_in_file(module):
    """Return the name of a module in files, which have `torch` for this package."""
    return "torch" + module.removeprefix("pytpu") if module == "pytpu" or module.startswith("pytpu.") else module


def add_safe_globals(safe_globals: list[Callable[..., typing.Any] | tuple[Callable[..., typing.Any], str]]) -> None:
    """Allow classes and functions in `load(weights_only=True)`.

    Args:
        safe_globals: Classes and functions, or pairs of one and the full name that files use for it.

    Example:
        >>> import pytpu as torch
        >>> import collections
        >>> torch.serialization.add_safe_globals([collections.UserDict])
        >>> collections.UserDict in torch.serialization.get_safe_globals()
        True
        >>> torch.serialization.clear_safe_globals()
    """
    for g in safe_globals:
        it, name = g if isinstance(g, tuple) else (g, f"{g.__module__}.{g.__qualname__}")
        _file_globals.user_safe[_module_in_file(name)] = g


def get_safe_globals() -> list[Callable | tuple[Callable, str]]:
    """Return the classes and functions that `add_safe_globals` added."""
    return list(_file_globals.user_safe.values())


def clear_safe_globals() -> None:
    """Remove everything that `add_safe_globals` added."""
    _file_globals.user_safe.clear()


@contextlib.contextmanager
def safe_globals(
    safe_globals: list[Callable[..., typing.Any] | tuple[Callable[..., typing.Any], str]],
) -> Iterator[None]:
    """Return a context manager in which `load(weights_only=True)` allows more classes and functions.

    Args:
        safe_globals: Classes and functions, or pairs of one and the full name that files use for it.

    Example:
        >>> import pytpu as torch
        >>> import collections
        >>> with torch.serialization.safe_globals([collections.UserDict]):
        ...     torch.serialization.get_safe_globals()
        [<class 'collections.UserDict'>]
    """
    before = dict(_file_globals.user_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _file_globals.user_safe.clear()
        _file_globals.user_safe.update(before)


class _Unpickler(pickle.Unpickler):
    """Read pickles of files that the caller trusts."""

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
    """Return the object for a name of PyTorch in a file."""
    found = _SAFE.get(f"{module}.{name}")
    if found is not None:
        return found
    if module == "torch.cuda" and name in _file_globals.STORAGES:
        module = "torch"
    first, _, rest = name.partition(".")
    if module == "torch._C" and first in ("_VariableFunctions", "_VariableFunctionsClass"):
        # PyTorch's namespaces of functions.
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
    """Return the object that a pickle describes.

    Raises:
        pickle.UnpicklingError: with `weights_only`, what is on no list.
    """
    if weights_only:
        g = _file_globals
        machine = _weights_only.Machine(text, g.find_allowed, persistent_load, g.build, g.bounded_calls, encoding)
        try:
            return machine.run()
        except _weights_only.Refused as error:
            raise _file_globals.refusal(error) from None
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


# ---- the format before 1.6


_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001


def _next_pickle(f, weights_only):
    """Return the bytes of a pickle, up to its end."""
    start = f.tell()
    if not weights_only:
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
    size = 1 << 16
    while True:
        data = f.read(size)
        try:
            end = _weights_only.scan(data)[1]
        except EOFError:
            if len(data) < size:
                raise
            # Do not trust sizes in the file: read more as long as there is more.
            size *= 4
            f.seek(start)
        else:
            f.seek(start + end)
            return data[:end]


def _rest_of(f):
    """Return the file, and the number of bytes that are left in it."""
    at = f.tell()
    try:
        f.seek(0, os.SEEK_END)
        end = f.tell()
        f.seek(at)
    except (OSError, ValueError, TypeError):
        # The end of a compressed file is unknown.
        rest = f.read()
        return io.BytesIO(rest), len(rest)
    return f, end - at


def _load_legacy(f, place, weights_only, encoding, pickle_module, arguments):
    """Read PyTorch's format before 1.6: pickles one after the other, then the memory of each storage."""

    def plain():
        return _unpickle(_next_pickle(f, weights_only), _no_storage, weights_only, encoding, pickle_module, arguments)

    try:
        magic = plain()
    except _weights_only.Refused:
        magic = None
    if magic != _MAGIC:
        raise pickle.UnpicklingError("Invalid magic number; corrupt file?")
    protocol = plain()
    if protocol != _PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {protocol}")
    about = plain()
    if not isinstance(about, dict) or not about.get("little_endian", True):
        raise RuntimeError("files written on big-endian machines are not supported")
    try:
        text = _next_pickle(f, weights_only)
    except _weights_only.Refused as error:
        raise _file_globals.refusal(error) from None
    f, left = _rest_of(f)

    def read(key, dtype, count):
        # The elements come later. Do not allocate more than the file can hold.
        nonlocal left
        left -= count * dtype.itemsize
        if left < 0:
            raise RuntimeError(f"unexpected EOF, expected {-left} more bytes. The file might be corrupted.")
        return _C._ops.empty([count], dtype=dtype)

    storages = _file_places.Storages(read, place)

    def load(saved):
        if isinstance(saved, tuple) and saved and _file_places.as_text(saved[0]) == "storage" and len(saved) == 6:
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
        storage = storages.by_key.get(_file_places.as_text(key))
        if storage is None:
            raise RuntimeError(f"the file has bytes for the storage {key!r}, which it does not describe")
        flat = storage._flat() if storage._tensor.is_cpu else storage._tensor
        size = f.read(8)
        if len(size) < 8 or int.from_bytes(size, "little") != flat.numel():
            raise RuntimeError(
                f"storage has wrong byte size: expected {flat.numel()} got {int.from_bytes(size, 'little')}"
            )
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
    """Return a part of a storage, in the form of files of PyTorch 0.1."""
    from .storage import TypedStorage

    _, offset, count = view
    return TypedStorage._of(_C._strided(storage._tensor, offset, [count], [1]))


class PyTorchFileReader:
    """Read the records of a file that `save` wrote, by name.

    Args:
        file: A path, or an object with `read`, `seek` and `tell`.

    Raises:
        RuntimeError: If the file is not such an archive.

    Example:
        >>> import pytpu as torch
        >>> import io
        >>> buffer = io.BytesIO()
        >>> torch.save(torch.zeros(2), buffer)
        >>> torch.PyTorchFileReader(buffer).has_record("data.pkl")
        True
    """

    def __init__(self, file: str | os.PathLike[str] | typing.IO[bytes]) -> None:
        self._file = open(file, "rb") if isinstance(file, (str, os.PathLike)) else file
        self._archive = _archive.Archive(self._file)

    def get_all_records(self) -> list[str]:
        """Return the names of all records."""
        return self._archive.names()

    def has_record(self, name: str) -> bool:
        """Return whether there is a record with this name."""
        return name in self._archive

    def get_record(self, name: str) -> bytes:
        """Return the bytes of a record."""
        return _archive.Archive(self._file).read(name)

    def get_record_size(self, name: str) -> int:
        """Return the size of a record in bytes."""
        return self._archive.size(name)

    def get_record_offset(self, name: str) -> int:
        """Return the position of the bytes of a record in the file."""
        return _archive.Archive(self._file).start(name)

    def get_storage_from_record(self, name: str, numel: int, dtype: _C.dtype) -> Tensor:
        """Return an empty tensor whose storage holds a record.

        Args:
            name: Name of the record.
            numel: Accepted for compatibility. The record has its size.
            dtype: Dtype of the tensor.
        """
        return _C._from_bytes(self.get_record(name), dtype)[:0]


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | typing.IO[bytes]) -> list[str]:
    """Return the full names of the classes and functions in a file that `load` would refuse.

    Args:
        f: A path, or an object with `read`, `seek` and `tell`.

    Raises:
        ValueError: If the file is not an archive that `save` wrote.
        pickle.UnpicklingError: If the file holds an opcode that `load` refuses.

    Example:
        >>> import pytpu as torch
        >>> import fractions, io
        >>> buffer = io.BytesIO()
        >>> torch.save(fractions.Fraction(1, 2), buffer)
        >>> _ = buffer.seek(0)
        >>> torch.serialization.get_unsafe_globals_in_checkpoint(buffer)
        ['fractions.Fraction']
    """
    with open(f, "rb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f) as file:
        if not _archive.is_archive(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        text = _archive.opened_archive(file).read("data.pkl")
    return [name for name in _weights_only.scan(text)[0] if _file_globals.find_allowed(name) is None]


# ---- options


class LoadEndianness(enum.Enum):
    """Byte order of files that do not state theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


MAP_SHARED = getattr(_mmap, "MAP_SHARED", 1)
MAP_PRIVATE = getattr(_mmap, "MAP_PRIVATE", 2)
DEFAULT_PROTOCOL = 2


class _Options:
    crc32 = True
    endianness: LoadEndianness | None = None
    mmap_flags = MAP_PRIVATE


class _State(threading.local):
    """Settings of a `with` block in one thread."""

    skip_data = False


_options, _state = _Options(), _State()


def get_crc32_options() -> bool:
    """Return whether `save` computes a checksum of each record."""
    return _options.crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether `save` computes a checksum of each record, which `load` checks.

    Args:
        compute_crc32: If `False`, saving is a little faster, and other programs may report a damaged archive.
    """
    _options.crc32 = bool(compute_crc32)


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the byte order of files that do not state theirs. `None` is little-endian."""
    return _options.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order of files that do not state theirs.

    Args:
        endianness: Byte order. `None` is little-endian.

    Raises:
        TypeError: If `endianness` has another type.
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _options.endianness = endianness


def get_default_mmap_options() -> int:
    """Return `MAP_PRIVATE` or `MAP_SHARED`, which `set_default_mmap_options` set. At first it is `MAP_PRIVATE`."""
    return _options.mmap_flags


class set_default_mmap_options:
    """Set whether writes to tensors of `load(mmap=True)` reach the file.

    As a context manager, restore the setting at the end of the block.

    Args:
        flags: With `MAP_PRIVATE`, writes stay in the process. With `MAP_SHARED`, they reach the file.

    Raises:
        ValueError: If `flags` has another value.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.serialization import MAP_SHARED, set_default_mmap_options
        >>> with set_default_mmap_options(MAP_SHARED):
        ...     print(torch.serialization.get_default_mmap_options() == MAP_SHARED)
        True
    """

    def __init__(self, flags: int) -> None:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                "but got "
                f"{flags}"
            )
        self.prev = _options.mmap_flags
        _options.mmap_flags = flags

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: typing.Any) -> None:
        _options.mmap_flags = self.prev


class skip_data:
    """Context manager in which `save` writes no bytes of storages, and `load` reads none.

    `save` leaves room for them in the file. `load` fills the tensors with zeros.

    Args:
        materialize_fake_tensors: Accepted for compatibility. There are no fake tensors.

    Example:
        >>> import pytpu as torch
        >>> import io
        >>> buffer = io.BytesIO()
        >>> with torch.serialization.skip_data():
        ...     torch.save(torch.ones(2), buffer)
        >>> _ = buffer.seek(0)
        >>> torch.load(buffer).shape
        torch.Size([2])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before, _state.skip_data = _state.skip_data, True

    def __exit__(self, *_: typing.Any) -> None:
        _state.skip_data = self._before


# ---- load


def _is_on(name):
    return os.environ.get(name, "0").lower() in ("1", "y", "yes", "true")


def _decide_weights_only(weights_only, pickle_module):
    """Return the value of `weights_only` by the argument and the environment."""
    is_forced, is_forced_off = _is_on("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), _is_on("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if is_forced and is_forced_off:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but "
            "both were set."
        )
    if is_forced:
        weights_only = True
    elif weights_only is None and is_forced_off:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument was not "
            "explicitly passed to "
            "`torch.load`, forcing weights_only=False.",
            stacklevel=3,
        )
        weights_only = False
    if weights_only is None:
        return pickle_module is None
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return bool(weights_only)


def load(
    f: str | os.PathLike[str] | typing.IO[bytes],
    map_location: MAP_LOCATION = None,
    pickle_module: ModuleType | None = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: typing.Any,
) -> typing.Any:
    """Read an object that `save` wrote, here or in PyTorch.

    Unless `weights_only=False`, `load` makes nothing but tensors, storages and plain containers. Such a file cannot run
    code, and cannot change classes or functions. The environment variable `TORCH_FORCE_WEIGHTS_ONLY_LOAD=1` sets
    `weights_only=True` for every call. `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1` changes the default.

    Args:
        f: A path, or an object with `read`, `seek` and `tell`.
        map_location: Where tensors go: a device, a dict from locations to locations, or a function of a storage and a
            location. `None` is the device that they came from.
        pickle_module: Module that reads the pickle of a file that you trust.
        weights_only: If `False`, trust the file, and run the code that its pickle names. `None` is `True`, unless
            `pickle_module` is given.
        mmap: Whether the file may be mapped. With `set_default_mmap_options(MAP_SHARED)` it is mapped, and writes reach
            the file. Otherwise the file is read, so that a later change of the file does no harm.
        pickle_load_args: `encoding` is the encoding of byte strings of Python 2. Other arguments go to the unpickler of
            a file that you trust.

    Returns:
        The object.

    Raises:
        pickle.UnpicklingError: If the file is damaged, or needs something that is not allowed.
        RuntimeError: If the file is damaged, or there is no such device.

    Example:
        >>> import pytpu as torch
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.pt")
        ...     torch.save(torch.nn.Linear(2, 1).state_dict(), path)
        ...     state = torch.load(path, map_location="cpu")
        >>> sorted(state)
        ['bias', 'weight']
    """
    weights_only = _decide_weights_only(weights_only, pickle_module)
    encoding = pickle_load_args.pop("encoding", "utf-8")
    if weights_only and pickle_load_args:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
        raise TypeError(f"Unpickler.__init__() got an unexpected keyword argument '{next(iter(pickle_load_args))}'")
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    place = _file_places.placement(map_location)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            if mmap and not _archive.is_archive(file):
                raise RuntimeError(
                    f"mmap can only be used with files saved with `torch.save({os.fspath(f)}, "
                    "_use_new_zipfile_serialization=True), please torch.save your checkpoint with this option in "
                    "order to use mmap."
                )
            path = os.fspath(f) if mmap and _options.mmap_flags == MAP_SHARED else None
            return _load(file, place, weights_only, encoding, pickle_module, pickle_load_args, path)
    for name in ("seek", "tell", "read"):
        if not hasattr(f, name):
            raise AttributeError(
                f"{type(f).__name__!r} object has no attribute {name!r}. You can only torch.load from a file that is "
                "seekable. "
                "Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
            )
    return _load(f, place, weights_only, encoding, pickle_module, pickle_load_args)


# Records of at least this many bytes are read into their final memory, without a copy.
_LARGE = 1 << 20


def _load(f, place, weights_only, encoding, pickle_module, arguments, mapped=None):
    if not _archive.is_archive(f):
        return _load_legacy(f, place, weights_only, encoding, pickle_module, arguments)
    archive = _archive.opened_archive(f)
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
                f"record size ({archive.size(name)} bytes) does not match expected size ({size} bytes = {count} "
                "elements * "
                f"{dtype.itemsize} bytes/element) for dtype {dtype._scalar_type}"
            )
        if _state.skip_data:
            archive.start(name)
            return _C._ops.zeros([count], dtype=dtype)
        if bytes_of_file is not None and not is_swapped:
            start = archive.start(name)
            if start is not None and start % dtype.itemsize == 0 and size:
                return _memory.part(bytes_of_file, start, size).view(dtype)
        if size >= _LARGE and not is_swapped and archive.can_read_into(name):
            flat = _C._ops.empty([count], dtype=dtype)
            archive.read_into(name, _archive.memory_of(flat))
            return flat
        data = archive.read(name)
        if is_swapped:
            from .storage import swapped

            data = swapped(data, dtype)
        return _C._from_bytes(data, dtype)

    storages = _file_places.Storages(read, place)
    result = _unpickle(archive.read("data.pkl"), storages.load, weights_only, encoding, pickle_module, arguments)
    storages.finish()
    if archive.end is not None:
        # The next call of `load` reads the next object.
        f.seek(archive.end)
    return result


def normalize_storage_type(storage_type: typing.Any) -> typing.Any:
    """Return the class of `torch` with the name of a storage class."""
    import pytpu as torch

    return getattr(torch, storage_type.__name__)
