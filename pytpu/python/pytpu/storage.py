"""The memory behind tensors, as `torch.storage`: `UntypedStorage` of bytes, and the older `TypedStorage` of elements."""

import warnings

from . import _C
from ._C import Tensor

__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b):
    """Make a storage from its pickle: the bytes of a file that `torch.save` wrote."""
    import io

    from .serialization import load

    loaded = load(io.BytesIO(b), weights_only=False)
    if not isinstance(loaded, _Storage) and hasattr(loaded, "tensor"):
        kind = UntypedStorage if b"ctorch.storage\nUntypedStorage\n" in b[:400] else TypedStorage
        loaded = kind._of(loaded.tensor if loaded.name is None else loaded.tensor.to(loaded.name))
    return loaded


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

    @property
    def is_cuda(self):
        """No."""
        return False

    def is_pinned(self, device=None):
        """No."""
        return False

    def is_shared(self):
        """Whether other processes can have it."""
        return self._tensor.is_shared()

    @property
    def _cdata(self):
        return self._tensor._storage_id()

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

    def cpu(self):
        """The same elements in the host's memory: itself, where they are."""
        return self if self._tensor.is_cpu else self._like(self._flat().cpu())

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    def __reduce__(self):
        from ._utils import storage_bytes

        return _load_from_bytes, (storage_bytes(self._flat(), isinstance(self, UntypedStorage)),)

    def _shown(self, device):
        lines = "\n ".join(map(str, self.tolist()))
        kind = f"torch.storage.{type(self).__name__}"
        return f" {lines}\n[{kind}({device}device={self.device}) of size {len(self)}]"


class UntypedStorage(_Storage):
    """Bytes: so many, those given, or with `_of` those of a tensor."""

    def __init__(self, data=0, *, device="cpu"):
        if isinstance(data, int):
            self._tensor = _C._ops.empty([data], dtype=_C.uint8, device=device)
        else:
            self._tensor = _C.tensor(list(data), dtype=_C.uint8, device=device)

    @classmethod
    def _of(cls, tensor):
        new = cls.__new__(cls)
        new._tensor = tensor.detach()
        return new

    _like = _of

    @classmethod
    def from_buffer(cls, buffer, count=-1, offset=0, byte_order=None, dtype=None):
        """A copy of the bytes of a buffer, or of `count` elements of a dtype."""
        data = bytes(buffer)[offset:]
        if count >= 0:
            data = data[: count * (1 if dtype is None else dtype.itemsize)]
        return cls(data)

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """The first bytes of a file; what is written to them reaches the file with `shared` alone."""
        from ._memory import map_file

        return cls._of(map_file(filename, shared, nbytes))

    def _flat(self):
        t = self._tensor
        return _C._strided(t, 0, [t._storage_bytes() // t.element_size()], [1]).view(_C.uint8)

    def element_size(self):
        """1."""
        return 1

    def untyped(self):
        """Itself."""
        return self

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._like(self._flat()[index].clone())
        return self._flat()[index].item()

    def __setitem__(self, index, value):
        self._flat()[index] = value

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and self._cdata == other._cdata

    def __hash__(self):
        return hash(self._cdata)

    def __repr__(self):
        return self._shown("")


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


class TypedStorage(_Storage):
    """Elements of a dtype: so many, those given, those of an untyped storage, or with `_of` those of a tensor."""

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        _warn()
        dtype = _C.get_default_dtype() if dtype is None else dtype
        if wrap_storage is not None:
            self._tensor = wrap_storage._flat().view(dtype)
        elif len(args) == 1 and not isinstance(args[0], int):
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

    def pickle_storage_type(self):
        """The name of its older class."""
        return f"{self.dtype._scalar_type}Storage"

    def type(self):
        """The name of its older class, with that of the module."""
        return f"torch.{'' if self._tensor.is_cpu else self.device.type + '.'}{self.pickle_storage_type()}"

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a <class 'torch.storage.TypedStorage'> with {type(index)}")
        return self._flat()[index].item()

    def __setitem__(self, index, value):
        self._flat()[index] = value

    def __repr__(self):
        return self._shown(f"dtype={self.dtype}, ")

    def _to(self, dtype):
        return TypedStorage._of(self._flat().to(dtype, copy=True))


for _method, _dtype in (
    ("float", _C.float32), ("double", _C.float64), ("half", _C.float16), ("bfloat16", _C.bfloat16), ("byte", _C.uint8),
    ("char", _C.int8), ("short", _C.int16), ("int", _C.int32), ("long", _C.int64), ("bool", _C.bool),
    ("complex_float", _C.complex64), ("complex_double", _C.complex128),
):
    def _convert(self, _dtype=_dtype):
        return self._to(_dtype)

    _convert.__name__, _convert.__qualname__ = _method, f"TypedStorage.{_method}"
    _convert.__doc__ = f"The elements as {_dtype}."
    setattr(TypedStorage, _method, _convert)
del _method, _dtype, _convert


class _OfOneDtype(type):
    """The type of `torch.FloatStorage` and its kin, which make and recognise typed storages."""

    def __instancecheck__(cls, x):
        return isinstance(x, TypedStorage) and x.dtype == cls.dtype

    def __call__(cls, *args, **kwargs):
        return TypedStorage(*args, dtype=cls.dtype, **kwargs)

    def from_buffer(cls, *args, **kwargs):
        """A copy of the elements in a buffer."""
        untyped = UntypedStorage.from_buffer(*args, **{**kwargs, "dtype": cls.dtype})
        return TypedStorage(wrap_storage=untyped, dtype=cls.dtype)


for _dtype in (
    _C.float32, _C.float64, _C.float16, _C.bfloat16, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.bool, _C.complex64,
    _C.complex128,
):
    _name = f"{_dtype._scalar_type}Storage"
    globals()[_name] = _OfOneDtype(_name, (), {"dtype": _dtype, "__module__": "torch", "__doc__": f"Storages of {_dtype}."})
    __all__.append(_name)
del _dtype, _name
