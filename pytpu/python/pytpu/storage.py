"""The memory of tensors, as `torch.storage`: `UntypedStorage` of bytes, and the older `TypedStorage` of elements."""

from __future__ import annotations

import warnings
import weakref

from . import _C
from ._C import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from typing_extensions import Self


__all__ = ["TypedStorage", "UntypedStorage"]

# One object for each storage while a reference to it exists: `x.untyped_storage() is x.untyped_storage()`.
_known: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()


def _load_from_bytes(b: bytes) -> Any:
    """Make a storage from its pickle: the bytes of a file that `torch.save` wrote."""
    import io

    from ._utils import read_storage
    from .serialization import load

    found = read_storage(b)
    if found is not None:
        storage = TypedStorage._of(found[0])
        if found[1].startswith("tpu"):
            # The tensor that uses it moves to the device.
            storage._target = found[1]
        return storage
    loaded = load(io.BytesIO(b), weights_only=False)
    return loaded.untyped() if b"ctorch.storage\nUntypedStorage\n" in b[:400] else loaded


class _Storage:
    """Base class of both kinds of storages."""

    if TYPE_CHECKING:
        _tensor: Any
        dtype: Any
        element_size: Any
        untyped: Any
        _flat: Any
        _like: Any

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return self._tensor.data_ptr() - self._tensor.storage_offset() * self._tensor.element_size()

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._tensor._storage_bytes()

    def size(self) -> int:
        """Return the number of elements. For an untyped storage these are bytes."""
        return self.nbytes() // self.element_size()

    def __len__(self):
        return self.size()

    @property
    def device(self) -> _C.device:
        """Device of the memory."""
        return self._tensor.device

    def get_device(self) -> int:
        """Return the index of the device, or `-1` on the CPU."""
        return self._tensor.get_device()

    @property
    def is_cuda(self) -> bool:
        """Always `False`: this build has no CUDA."""
        return False

    @property
    def is_hpu(self) -> bool:
        """Always `False`: this build has no HPU."""
        return False

    is_sparse = False

    def is_pinned(self, device: Any = None) -> bool:
        """Always `False`: memory is never pinned."""
        return False

    def is_shared(self) -> bool:
        """Return whether other processes can use the memory."""
        return self._tensor.is_shared()

    @property
    def _cdata(self):
        return self._tensor._storage_id()

    @property
    def filename(self) -> str | None:
        """Name of the file that the memory is mapped from, if writes reach it. Otherwise `None`."""
        return self.untyped()._filename

    def resizable(self) -> bool:
        """Return whether `resize_` is allowed.

        It is not if another object owns the memory, or a NumPy array shares it.
        """
        return self.untyped()._is_resizable

    def tolist(self) -> list[Any]:
        """Return all elements as a list."""
        return self._flat().tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def fill_(self, value: Any) -> Self:
        """Set all elements to `value`, and return the storage."""
        self._flat().fill_(value)
        return self

    def copy_(self, source: _Storage, non_blocking: bool | None = None) -> Self:
        """Copy the elements of a storage of the same size, and return this storage."""
        self._flat().copy_(source._flat())
        return self

    def clone(self) -> Self:
        """Return a copy."""
        return self._like(self._flat().clone())

    def to(self, *, device: _C.device | str | int, non_blocking: bool = False) -> Self:
        """Return the storage on a device: itself if it is there, otherwise a copy.

        Args:
            device: Device, or its name or index.
            non_blocking: Accepted for compatibility.
        """
        device = _C.device(device)
        here = self._tensor.device
        is_there = here.type == device.type and (device.index is None or device.index == (here.index or 0))
        return self if is_there else self._like(self._flat().to(device))

    def cpu(self) -> Self:
        """Return the storage on the CPU: itself if it is there, otherwise a copy."""
        return self if self._tensor.is_cpu else self._like(self._flat().cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> _Storage | TypedStorage:
        """Always raise `AssertionError`: this build has no CUDA."""
        raise AssertionError("Torch not compiled with CUDA enabled")

    def share_memory_(self) -> Self:
        """Move the memory to where other processes can use it, and return the storage.

        Tensors on the memory are moved as by `UntypedStorage.resize_`.
        """
        if not self.is_shared():
            untyped = self.untyped()
            shared = untyped._flat()
            shared.share_memory_()
            untyped._move(shared)
            self._tensor = shared if self is untyped else shared.view(self.dtype)
        return self

    def pin_memory(self, device: Any = "cuda") -> Self:
        """Return the storage itself: no device copies faster from pinned memory."""
        return self

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            flat = self._flat()
            copied = copied_memory(memo, self._tensor, flat.dtype, flat.clone)
            memo[id(self)] = self._like(_C._strided(copied.detach(), 0, [flat.numel()], [1]))
        return memo[id(self)]

    def __reduce__(self):
        from ._utils import storage_bytes

        return _load_from_bytes, (storage_bytes(self._flat(), isinstance(self, UntypedStorage)),)

    @property
    def __array_interface__(self):
        # `torch.tensor`, `torch.as_tensor` and NumPy read this instead of single elements.
        if not self._tensor.is_cpu:
            raise AttributeError("__array_interface__")
        return _C._array_interface(self._flat())[0]

    def _shown(self, device):
        lines = "\n ".join(map(str, self.tolist()))
        kind = f"torch.storage.{type(self).__name__}"
        return f" {lines}\n[{kind}({device}device={self.device}) of size {len(self)}]"


def _bytes_of(data):
    items = list(data)
    for item in items:
        if not isinstance(item, int):
            raise RuntimeError(
                f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(data).__name__}), but "
                "one of the items was "
                f"of type {type(item).__name__} instead of int"
            )
    return bytes(item & 255 for item in items)


def copied_memory(memo: dict[Any, Any], tensor: Tensor, dtype: _C.dtype, copy: Callable[[], Tensor]) -> Tensor:
    """Return the copy of the memory of `tensor` that a deep copy makes once, as a dense tensor of `dtype`.

    Tensors and storages on one memory share the copy. `copy` makes it.
    """
    copies = memo.setdefault("torch", {})
    memory = tensor._storage_id()
    if (memory, dtype) not in copies:
        known = next((t for (other, _), t in copies.items() if other == memory), None)
        if known is None:
            copies[memory, dtype] = copy()
        else:
            flat = _C._strided(known.detach(), 0, [known._storage_bytes() // known.element_size()], [1])
            size = dtype.itemsize
            copies[memory, dtype] = flat.view(_C.uint8)[: known._storage_bytes() // size * size].view(dtype)
    return copies[memory, dtype]


class UntypedStorage(_Storage):
    """Bytes of memory.

    Args:
        size: Number of bytes, or a sequence of bytes.
        device: Device of the memory.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1, 2], dtype=torch.uint8)
        >>> x.untyped_storage().tolist()
        [1, 2]
    """

    _filename = None
    # Whether another object, such as a mapped file, owns the memory.
    _is_foreign = False
    # Weak references to the tensors that this storage was taken from, by address.
    _tensors = None

    def __init__(self, size: Any = 0, *, device: _C.device | str | int = "cpu") -> None:
        if hasattr(size, "__index__"):
            if size < 0:
                raise RuntimeError(f"UntypedStorage: the size must not be negative, but got {size}")
            self._tensor = _C._ops.empty([size], dtype=_C.uint8, device=device)
        else:
            flat = _C._from_bytes(_bytes_of(size), _C.uint8)
            self._tensor = flat if _C.device(device).type == "cpu" else flat.to(device)
        _known[self._tensor._storage_id()] = self

    @classmethod
    def _of(cls, tensor):
        key = tensor._storage_id()
        new = _known.get(key)
        if new is None:
            new = _known[key] = cls.__new__(cls)
            new._tensor = tensor.detach()
        return new

    _like = _of

    @classmethod
    def _of_part(cls, tensor, filename=None):
        """Return a storage on memory that another object owns."""
        new = cls._of(tensor)
        new._is_foreign, new._filename = True, filename
        return new

    @property
    def _is_resizable(self):
        # A NumPy array on the memory fixes the size too: it would go on reading the old memory.
        return not self._is_foreign and self._tensor._is_resizable()

    def _watch(self, tensor):
        """Keep a weak reference to a tensor on this memory, which `resize_` has to move."""
        watched = self._tensors
        if watched is None:
            watched = self._tensors = {}
        key = id(tensor)
        if key not in watched:
            watched[key] = weakref.ref(tensor, lambda _: watched.pop(key, None))
        return self

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0, dtype: _C.dtype | None = None
    ) -> UntypedStorage:
        """Return a copy of the elements of a buffer.

        Args:
            buffer: Object with the buffer protocol.
            byte_order: Byte order of the buffer: `"native"`, `"little"` or `"big"`. It must be given for elements of
                several bytes.
            count: Number of elements. A negative number is all.
            offset: Number of bytes to skip.
            dtype: Dtype of the elements.
        """
        if dtype is None:
            raise RuntimeError("argument 'dtype' cannot be None")
        size = dtype.itemsize
        if size > 1 and byte_order is None:
            raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
        if byte_order not in (None, "big", "little", "native"):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
        with memoryview(buffer) as view, view.cast("B") as octets:
            length = len(octets)
            if not 0 <= offset <= length:
                raise ValueError(
                    f"offset must be non-negative and no greater than buffer length ({offset}) , but got {length}"
                )
            there = (length - offset) // size
            if count < 0:
                if (length - offset) % size:
                    raise ValueError(f"buffer size ({length}) must be a multiple of element size ({size})")
                count = there
            if count > there:
                raise ValueError(
                    f"buffer has only {there} elements after offset {offset}, but specified a size of {count}"
                )
            data = bytes(octets[offset : offset + count * size])
        if dtype is _C.bool:
            data = bytes(map(bool, data))
        if byte_order == "big":
            data = swapped(data, dtype)
        return cls._of(_C._from_bytes(data, _C.uint8))

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the first bytes of a file.

        Args:
            filename: Name of the file.
            shared: If `True`, writes reach the file.
            nbytes: Number of bytes.
        """
        from ._memory import map_file

        return cls._of_part(map_file(filename, shared, nbytes), filename if shared else None)

    def new(self) -> UntypedStorage:
        """Return an empty storage on the same device."""
        return type(self)(0, device=self.device)

    def _flat(self):
        t = self._tensor
        return _C._strided(t, 0, [t._storage_bytes() // t.element_size()], [1]).view(_C.uint8)

    def element_size(self) -> int:
        """Return 1."""
        return 1

    def untyped(self) -> UntypedStorage:
        """Return the storage itself."""
        return self

    def type(self, dtype: _C.dtype | None = None, non_blocking: bool = False) -> str:
        """Return the name of the class with its module."""
        if dtype is None:
            return f"torch.{'' if self._tensor.is_cpu else self.device.type + '.'}UntypedStorage"
        return self._as(dtype)

    def byteswap(self, dtype: _C.dtype) -> None:
        """Reverse the bytes of each element in place.

        Args:
            dtype: Dtype of the elements.
        """
        self._flat().copy_(_C._from_bytes(swapped(_C._to_bytes(self._flat()), dtype), _C.uint8))

    def resize_(self, size: int) -> Self:
        """Change the number of bytes, and return the storage. The first bytes are kept.

        The storage gets new memory, and so do the tensors that it was taken from. Other tensors keep the old memory.

        Args:
            size: New number of bytes.

        Raises:
            RuntimeError: If another object owns the memory.
            NotImplementedError: If a tensor on the storage needs more bytes.
        """
        if size < 0:
            raise RuntimeError(f"resize_: the size must not be negative, but got {size}")
        flat = self._flat()
        if size == flat.numel():
            return self
        if not self._is_resizable:
            raise RuntimeError("Trying to resize storage that is not resizable")
        for t in self._living():
            if t.numel() and _end(t) > size:
                raise NotImplementedError(
                    f"resize_: a tensor of shape {list(t.shape)} needs {_end(t)} bytes of this storage; tensors "
                    "without memory are not "
                    "supported. Make the tensor smaller first."
                )
        new = _C._ops.empty([size], dtype=_C.uint8, device=self.device)
        n = min(size, flat.numel())
        new[:n].copy_(flat[:n])
        self._move(new)
        return self

    def _living(self):
        """Return the tensors that this storage was taken from and that still use it."""
        watched = [t() for t in list((self._tensors or {}).values())]
        return [t for t in watched if t is not None and t._storage_id() == self._cdata]

    def _move(self, new):
        """Replace the memory of this storage, and of the tensors that it was taken from, by that of a flat tensor."""
        for t in self._living():
            elements = new[: new.numel() - new.numel() % t.element_size()].view(t.dtype)
            _C._swap_tensor(t, _C._strided(elements, t.storage_offset(), list(t.shape), list(t.stride())))
        _known.pop(self._cdata, None)
        self._tensor = new
        _known[new._storage_id()] = self

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            if not self._tensor.is_cpu:
                # Memory on a device has no addresses of parts.
                return self._like(self._flat()[start : max(start, stop)].clone())
            from ._memory import part

            return self._of_part(part(self._flat(), start, max(stop - start, 0)))
        if not hasattr(type(index), "__index__") or isinstance(index, Tensor):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"index {index} out of range for storage of size {n}")
        return self._flat()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, int):
            raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
        if not isinstance(index, slice) and not -len(self) <= index < len(self):
            raise RuntimeError("out of bounds")
        self._flat()[index] = value & 255

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._cdata == other._cdata

    def __hash__(self) -> int:
        return hash(self._cdata)

    def __repr__(self) -> str:
        return self._shown("")

    def _as(self, dtype):
        return TypedStorage._of(self._flat().to(dtype))


def _end(t):
    """Return the position after the last byte of the storage that a tensor uses."""
    return (t.storage_offset() + 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))) * t.element_size()


def swapped(data: bytes, dtype: _C.dtype) -> bytes:
    """Return bytes with the bytes of each number in reverse order. A complex element is two numbers."""
    from array import array

    size = dtype.itemsize // (2 if dtype.is_complex else 1)
    if size == 1:
        return bytes(data)
    numbers = array({2: "H", 4: "I", 8: "Q"}[size], bytes(data))
    numbers.byteswap()
    return numbers.tobytes()


_is_warned = False


def _warn(stacklevel=3):
    global _is_warned
    if not _is_warned:
        _is_warned = True
        warnings.warn(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
            "class. "
            "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, "
            "use "
            "tensor.untyped_storage() instead of tensor.storage()",
            stacklevel=stacklevel,
        )


_FORMS = (
    "TypedStorage.__init__ received an invalid combination of arguments. Expected one of:\n * (*, torch.device "
    "device, torch.dtype dtype)\n"
    " * (int size, *, torch.device device, torch.dtype dtype)\n * (Sequence data, *, torch.device device, torch.dtype "
    "dtype)\n"
    " * (*, UntypedStorage wrap_storage, torch.dtype dtype)\n"
)


class TypedStorage(_Storage):
    """Memory of elements of a dtype. Deprecated: use `UntypedStorage`.

    Args:
        args: Number of elements, or a sequence of elements.
        wrap_storage: Untyped storage with the elements.
        dtype: Dtype of the elements.
        device: Device of the memory.

    Example:
        >>> import pytpu as torch
        >>> torch.FloatStorage([1.0, 2.0]).tolist()
        [1.0, 2.0]
    """

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: _C.dtype | None = None,
        device: _C.device | str | int | None = None,
        _internal: bool = False,
    ) -> None:
        if not _internal:
            _warn()
        if wrap_storage is not None:
            if args:
                raise RuntimeError(f"{_FORMS}No positional arguments should be given when using 'wrap_storage'")
            if dtype is None:
                raise RuntimeError(f"{_FORMS}Argument 'dtype' must be specified")
            flat = wrap_storage._flat()
            self._tensor = flat[: flat.numel() - flat.numel() % dtype.itemsize].view(dtype)
            return
        dtype = _C.get_default_dtype() if dtype is None else dtype
        if len(args) == 1 and not isinstance(args[0], int):
            self._tensor = _C.tensor(list(args[0]), dtype=dtype, device=device)
        else:
            self._tensor = _C._ops.empty([args[0] if args else 0], dtype=dtype, device=device)

    @classmethod
    def _of(cls, tensor):
        new = cls.__new__(cls)
        new._tensor = tensor.detach()
        return new

    _like = _of

    @property
    def dtype(self) -> _C.dtype:
        """Dtype of the elements."""
        return self._tensor.dtype

    def _flat(self):
        return _C._strided(self._tensor, 0, [self.size()], [1])

    def element_size(self) -> int:
        """Return the number of bytes of an element."""
        return self._tensor.element_size()

    def untyped(self) -> UntypedStorage:
        """Return the memory as an untyped storage."""
        return UntypedStorage._of(self._tensor)

    _untyped_storage = property(untyped)

    def pickle_storage_type(self) -> str:
        """Return the name of the older class."""
        return f"{self.dtype._scalar_type}Storage"

    def type(self, dtype: _C.dtype | type | str | None = None, non_blocking: bool = False) -> TypedStorage | str:
        """Return the name of the older class with its module. With `dtype`, return a converted storage."""
        if dtype is None:
            return f"torch.{'' if self._tensor.is_cpu else self.device.type + '.'}{self.pickle_storage_type()}"
        return self._to(dtype)

    def resize_(self, size: int) -> Self:
        """Change the number of elements, and return the storage. The first elements are kept.

        Args:
            size: New number of elements.
        """
        untyped = self.untyped()
        untyped.resize_(size * self.element_size())
        self._tensor = untyped._flat().view(self.dtype)
        return self

    # The dtype of derived classes.
    _fixed = None

    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """Return a copy of the elements of a buffer. See `UntypedStorage.from_buffer`."""
        dtype = cls._fixed or kwargs.get("dtype") or _C.get_default_dtype()
        untyped = UntypedStorage.from_buffer(*args, **{**kwargs, "dtype": dtype})
        return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)

    @classmethod
    def from_file(cls, filename: str, shared: bool, size: int) -> TypedStorage:
        """Return the first elements of a file. Call it on a class with a dtype, such as `torch.FloatStorage`.

        Args:
            filename: Name of the file.
            shared: If `True`, writes reach the file.
            size: Number of elements.
        """
        if cls._fixed is None:
            raise RuntimeError("from_file can only be called on derived classes")
        untyped = UntypedStorage.from_file(filename, shared, size * cls._fixed.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=cls._fixed, _internal=True)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a <class 'torch.storage.TypedStorage'> with {type(index)}")
        return self._flat()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat()[index] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._cdata == other._cdata and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self._cdata)

    def __repr__(self) -> str:
        return self._shown(f"dtype={self.dtype}, ")

    def _to(self, dtype):
        return TypedStorage._of(self._flat().to(dtype, copy=True))


for _method, _dtype in (
    ("float", _C.float32),
    ("double", _C.float64),
    ("half", _C.float16),
    ("bfloat16", _C.bfloat16),
    ("byte", _C.uint8),
    ("char", _C.int8),
    ("short", _C.int16),
    ("int", _C.int32),
    ("long", _C.int64),
    ("bool", _C.bool),
    ("complex_float", _C.complex64),
    ("complex_double", _C.complex128),
):

    def _convert(self, _dtype=_dtype):
        return self._to(_dtype)

    def _convert_bytes(self, _dtype=_dtype):
        return self._as(_dtype)

    _convert.__name__, _convert.__qualname__ = _method, f"TypedStorage.{_method}"
    _convert_bytes.__name__, _convert_bytes.__qualname__ = _method, f"UntypedStorage.{_method}"
    _convert.__doc__ = _convert_bytes.__doc__ = f"The elements as {_dtype}."
    setattr(TypedStorage, _method, _convert)
    setattr(UntypedStorage, _method, _convert_bytes)
del _method, _dtype, _convert, _convert_bytes


class _OfOneDtype(type):
    """Metaclass of `torch.FloatStorage` and similar classes, which make and recognize typed storages."""

    def __instancecheck__(cls, x):
        return isinstance(x, TypedStorage) and x.dtype == cls.dtype

    def __call__(cls, *args, **kwargs):
        return TypedStorage(*args, dtype=cls.dtype, **kwargs)


for _dtype in (
    _C.float32,
    _C.float64,
    _C.float16,
    _C.bfloat16,
    _C.uint8,
    _C.int8,
    _C.int16,
    _C.int32,
    _C.int64,
    _C.bool,
    _C.complex64,
    _C.complex128,
):
    _name = f"{_dtype._scalar_type}Storage"
    _fixed = {"dtype": _dtype, "_fixed": _dtype}
    globals()[_name] = _OfOneDtype(
        _name, (TypedStorage,), {**_fixed, "__module__": "torch", "__doc__": f"Storages of {_dtype}."}
    )
    __all__.append(_name)
del _dtype, _name, _fixed

Storage = globals()["FloatStorage"]
