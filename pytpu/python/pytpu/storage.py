"""The memory behind tensors, as `torch.storage`: `UntypedStorage` of bytes, and the older `TypedStorage` of elements."""

import warnings
import weakref

from . import _C
from ._C import Tensor

__all__ = ["TypedStorage", "UntypedStorage"]

# One object for each storage while a reference to it exists: `x.untyped_storage() is x.untyped_storage()`.
_known = weakref.WeakValueDictionary()


def _load_from_bytes(b):
    """Make a storage from its pickle: the bytes of a file that `torch.save` wrote."""
    import io

    from ._utils import read_storage
    from .serialization import load

    found = read_storage(b)
    if found is not None:
        storage = TypedStorage._of(found[0])
        if found[1].startswith("tpu"):
            # The tensor that is made of it takes it to the device.
            storage._target = found[1]
        return storage
    loaded = load(io.BytesIO(b), weights_only=False)
    return loaded.untyped() if b"ctorch.storage\nUntypedStorage\n" in b[:400] else loaded


class _Storage:
    """What both kinds share: a tensor on the memory, and all of it as one flat tensor."""

    def data_ptr(self):
        """The address of the first byte."""
        return self._tensor.data_ptr() - self._tensor.storage_offset() * self._tensor.element_size()

    def nbytes(self):
        """How many bytes there are."""
        return self._tensor._storage_bytes()

    def size(self):
        """How many elements there are; of an untyped storage, bytes."""
        return self.nbytes() // self.element_size()

    def __len__(self):
        return self.size()

    @property
    def device(self):
        """Where it is."""
        return self._tensor.device

    def get_device(self):
        """Index of the device; -1 on the host."""
        return self._tensor.get_device()

    @property
    def is_cuda(self):
        """Always `False`: this build has no CUDA."""
        return False

    @property
    def is_hpu(self):
        """Always `False`: this build has no HPU."""
        return False

    is_sparse = False

    def is_pinned(self, device=None):
        """Always `False`: memory is never pinned."""
        return False

    def is_shared(self):
        """Whether other processes can have it."""
        return self._tensor.is_shared()

    @property
    def _cdata(self):
        return self._tensor._storage_id()

    @property
    def filename(self):
        """Name of the file that the memory is mapped from, if changes reach it; else `None`."""
        return self.untyped()._filename

    def resizable(self):
        """Whether `resize_` is allowed: not for memory that another object owns, or that a NumPy array shares."""
        return self.untyped()._is_resizable

    def tolist(self):
        """All elements."""
        return self._flat().tolist()

    def __iter__(self):
        return iter(self.tolist())

    def fill_(self, value):
        """Sets all elements."""
        self._flat().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        """Sets all elements to those of a storage of the same size."""
        self._flat().copy_(source._flat())
        return self

    def clone(self):
        """The same elements elsewhere."""
        return self._like(self._flat().clone())

    def to(self, *, device, non_blocking=False):
        """The same elements on a device: itself, if they are there."""
        device = _C.device(device)
        here = self._tensor.device
        is_there = here.type == device.type and (device.index is None or device.index == (here.index or 0))
        return self if is_there else self._like(self._flat().to(device))

    def cpu(self):
        """The same elements in the host's memory: itself, if they are there."""
        return self if self._tensor.is_cpu else self._like(self._flat().cpu())

    def cuda(self, device=None, non_blocking=False):
        """Always raises: this build has no CUDA."""
        raise AssertionError("Torch not compiled with CUDA enabled")

    def share_memory_(self):
        """Moves the memory to where other processes can have it; tensors as in `UntypedStorage.resize_`."""
        if not self.is_shared():
            untyped = self.untyped()
            shared = untyped._flat()
            shared.share_memory_()
            untyped._move(shared)
            self._tensor = shared if self is untyped else shared.view(self.dtype)
        return self

    def pin_memory(self, device="cuda"):
        """Returns itself: there is no device that copies faster from pinned memory."""
        return self

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    def __reduce__(self):
        from ._utils import storage_bytes

        return _load_from_bytes, (storage_bytes(self._flat(), isinstance(self, UntypedStorage)),)

    @property
    def __array_interface__(self):
        # `torch.tensor`, `torch.as_tensor` and NumPy read this instead of one element after the other.
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
                f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(data).__name__}), but one of the items was "
                f"of type {type(item).__name__} instead of int"
            )
    return bytes(item & 255 for item in items)


class UntypedStorage(_Storage):
    """Bytes: so many, those given, or with `_of` those of a tensor."""

    _filename = None
    # Whether another object, such as a mapped file, owns the memory.
    _is_foreign = False
    # The tensors on this memory that were asked for it, by their addresses, as weak references.
    _tensors = None

    def __init__(self, size=0, *, device="cpu"):
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
        """Of memory that another object owns."""
        new = cls._of(tensor)
        new._is_foreign, new._filename = True, filename
        return new

    @property
    def _is_resizable(self):
        # A NumPy array on the memory keeps the size as well: it goes on reading the old memory otherwise.
        return not self._is_foreign and self._tensor._is_resizable()

    def _watch(self, tensor):
        """Remembers a tensor on this memory, which `resize_` has to move."""
        watched = self._tensors
        if watched is None:
            watched = self._tensors = {}
        key = id(tensor)
        if key not in watched:
            watched[key] = weakref.ref(tensor, lambda _: watched.pop(key, None))
        return self

    @classmethod
    def from_buffer(cls, buffer, byte_order=None, count=-1, offset=0, dtype=None):
        """A copy of the elements of a buffer.

        Args:
            buffer: an object with the buffer protocol.
            byte_order (str): of the buffer: "native", "little" or "big"; must be given when elements have more than one byte.
            count (int): number of elements; all there are, when it is negative.
            offset (int): bytes to leave out in front.
            dtype (torch.dtype): of the elements.
        """
        if dtype is None:
            raise RuntimeError("argument 'dtype' cannot be None")
        size = dtype.itemsize
        if size > 1 and byte_order is None:
            raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
        if byte_order not in (None, "big", "little", "native"):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
        with memoryview(buffer) as view, view.cast("B") as data:
            length = len(data)
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
            data = bytes(data[offset : offset + count * size])
        if dtype is _C.bool:
            data = bytes(map(bool, data))
        if byte_order == "big":
            data = swapped(data, dtype)
        return cls._of(_C._from_bytes(data, _C.uint8))

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """The first bytes of a file; what is written to them reaches the file with `shared` alone."""
        from ._memory import map_file

        return cls._of_part(map_file(filename, shared, nbytes), filename if shared else None)

    def new(self):
        """An empty storage on the same device."""
        return type(self)(0, device=self.device)

    def _flat(self):
        t = self._tensor
        return _C._strided(t, 0, [t._storage_bytes() // t.element_size()], [1]).view(_C.uint8)

    def element_size(self):
        """1."""
        return 1

    def untyped(self):
        """Itself."""
        return self

    def type(self, dtype=None, non_blocking=False):
        """The name of the class, with that of the module."""
        if dtype is None:
            return f"torch.{'' if self._tensor.is_cpu else self.device.type + '.'}UntypedStorage"
        return self._as(dtype)

    def byteswap(self, dtype):
        """Reverses the bytes of each element of a dtype, in place."""
        self._flat().copy_(_C._from_bytes(swapped(_C._to_bytes(self._flat()), dtype), _C.uint8))

    def resize_(self, size):
        """Changes the number of bytes; the first ones are kept.

        The storage gets new memory, and so do the tensors that it was asked from. Other tensors stay on the memory that they have.

        Raises:
            RuntimeError: another object owns the memory.
            NotImplementedError: less than a tensor on it needs.
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
                    f"resize_: a tensor of shape {list(t.shape)} needs {_end(t)} bytes of this storage; tensors without memory are not "
                    "supported. Make the tensor smaller first."
                )
        new = _C._ops.empty([size], dtype=_C.uint8, device=self.device)
        n = min(size, flat.numel())
        new[:n].copy_(flat[:n])
        self._move(new)
        return self

    def _living(self):
        """The tensors that this was asked from, as far as they still look at it."""
        watched = [t() for t in list((self._tensors or {}).values())]
        return [t for t in watched if t is not None and t._storage_id() == self._cdata]

    def _move(self, new):
        """Puts the bytes of another flat tensor in place of the memory, for this storage and the tensors it was asked from."""
        for t in self._living():
            elements = new[: new.numel() - new.numel() % t.element_size()].view(t.dtype)
            _C._swap_tensor(t, _C._strided(elements, t.storage_offset(), list(t.shape), list(t.stride())))
        _known.pop(self._cdata, None)
        self._tensor = new
        _known[new._storage_id()] = self

    def __getitem__(self, index):
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            if not self._tensor.is_cpu:
                # Memory of a device has no address that a part could start at.
                return self._like(self._flat()[start : max(start, stop)].clone())
            from ._memory import part

            return self._of_part(part(self._flat(), start, max(stop - start, 0)))
        if not hasattr(type(index), "__index__") or isinstance(index, Tensor):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"index {index} out of range for storage of size {n}")
        return self._flat()[index].item()

    def __setitem__(self, index, value):
        if not isinstance(value, int):
            raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
        if not isinstance(index, slice) and not -len(self) <= index < len(self):
            raise RuntimeError("out of bounds")
        self._flat()[index] = value & 255

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and self._cdata == other._cdata

    def __hash__(self):
        return hash(self._cdata)

    def __repr__(self):
        return self._shown("")

    def _as(self, dtype):
        return TypedStorage._of(self._flat().to(dtype))


def _end(t):
    """The first byte of the storage that a tensor does not reach."""
    return (t.storage_offset() + 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))) * t.element_size()


def swapped(data, dtype):
    """Bytes with those of each number in reverse order; a complex element is two numbers."""
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
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
            "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
            "tensor.untyped_storage() instead of tensor.storage()",
            stacklevel=stacklevel,
        )


_FORMS = (
    "TypedStorage.__init__ received an invalid combination of arguments. Expected one of:\n * (*, torch.device device, torch.dtype dtype)\n"
    " * (int size, *, torch.device device, torch.dtype dtype)\n * (Sequence data, *, torch.device device, torch.dtype dtype)\n"
    " * (*, UntypedStorage wrap_storage, torch.dtype dtype)\n"
)


class TypedStorage(_Storage):
    """Elements of a dtype: so many, those given, those of an untyped storage, or with `_of` those of a tensor."""

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
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
    def dtype(self):
        """The dtype of the elements."""
        return self._tensor.dtype

    def _flat(self):
        return _C._strided(self._tensor, 0, [self.size()], [1])

    def element_size(self):
        """The bytes of one element."""
        return self._tensor.element_size()

    def untyped(self):
        """The bytes."""
        return UntypedStorage._of(self._tensor)

    _untyped_storage = property(untyped)

    def pickle_storage_type(self):
        """The name of its older class."""
        return f"{self.dtype._scalar_type}Storage"

    def type(self, dtype=None, non_blocking=False):
        """The name of its older class, with that of the module."""
        if dtype is None:
            return f"torch.{'' if self._tensor.is_cpu else self.device.type + '.'}{self.pickle_storage_type()}"
        return self._to(dtype)

    def resize_(self, size):
        """Changes the number of elements; the first ones are kept. See `UntypedStorage.resize_`."""
        untyped = self.untyped()
        untyped.resize_(size * self.element_size())
        self._tensor = untyped._flat().view(self.dtype)
        return self

    # The dtype of derived classes.
    _fixed = None

    @classmethod
    def from_buffer(cls, *args, **kwargs):
        """A copy of the elements in a buffer; see `UntypedStorage.from_buffer`."""
        dtype = cls._fixed or kwargs.get("dtype") or _C.get_default_dtype()
        untyped = UntypedStorage.from_buffer(*args, **{**kwargs, "dtype": dtype})
        return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)

    @classmethod
    def from_file(cls, filename, shared, size):
        """The first elements of a file, of the dtype of a derived class such as `torch.FloatStorage`."""
        if cls._fixed is None:
            raise RuntimeError("from_file can only be called on derived classes")
        untyped = UntypedStorage.from_file(filename, shared, size * cls._fixed.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=cls._fixed, _internal=True)

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a <class 'torch.storage.TypedStorage'> with {type(index)}")
        return self._flat()[index].item()

    def __setitem__(self, index, value):
        self._flat()[index] = value

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self._cdata == other._cdata and self.dtype == other.dtype

    def __hash__(self):
        return hash(self._cdata)

    def __repr__(self):
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
    """The type of `torch.FloatStorage` and its kin, which make and recognise typed storages."""

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
