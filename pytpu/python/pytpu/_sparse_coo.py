"""The result of `Tensor.to_sparse`: indices and values, which can be read, moved, copied and made dense again.

Whisper keeps the places of a mask in this form. There is no arithmetic on such a tensor: all other functions refuse it.
"""

import pytpu as torch
from pytpu import _C

from ._not_there import sentence

# Functions that are the same for the dense tensor.
_SAME = frozenset(
    "__len__ data_ptr dim element_size get_device is_complex is_floating_point is_inference is_signed ndimension numel "
    "requires_grad_ size".split()
)
# Functions whose result is sparse again, at the same places.
_MAPPED = frozenset("bfloat16 bool clone cpu detach double float half int long short to tpu type".split())
_SHAPED = frozenset("H T mH mT imag real".split())


class _SparseTensor(_C.Tensor):
    """A sparse tensor in coordinate format. The object itself is a dense tensor, which its methods hide."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        if name == "__get__":
            name = getattr(func.__self__, "__name__", name)
            kind = "refused" if name in _SHAPED else "mapped" if name == "data" else "same"
        else:
            kind = "same" if name in _SAME else "mapped" if name in _MAPPED else "refused"
        if kind == "refused":
            raise NotImplementedError(f"{name}: {sentence('Tensor.sparse_mask')}")
        source = args[0]
        with _C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
            return found if kind == "same" or not isinstance(found, _C.Tensor) else _wrap(found, source._places)

    @property
    def layout(self):
        """Always `torch.sparse_coo`."""
        return torch.sparse_coo

    @property
    def is_sparse(self):
        """Always `True`."""
        return True

    def indices(self):
        """Return the places of the values, `(sparse_dim, nnz)`, as `int64`."""
        return self._places.to(self.device)

    def values(self):
        """Return the values, `(nnz, ...)`."""
        with _C.DisableTorchFunctionSubclass():
            dense = self.as_subclass(_C.Tensor)
            if not len(self._places):
                return dense.unsqueeze(0).expand(self._nnz(), *dense.shape).clone()
            return dense[tuple(self._places.to(dense.device))]

    def to_dense(self, dtype=None, *, masked_grad=True):
        """Return a dense tensor, with 0 where there is no value."""
        values = self.values() if dtype is None else self.values().to(dtype)
        if not len(self._places):
            return values.sum(0).to(values.dtype)
        dense = torch.zeros(tuple(self.shape), dtype=values.dtype, device=values.device)
        return dense.index_put(tuple(self._places.to(values.device)), values)

    def to_sparse(self, *args, **kwargs):
        """Return the tensor itself."""
        return self

    to_sparse_coo = coalesce = to_sparse

    def is_coalesced(self):
        """Always return `True`: no place occurs twice."""
        return True

    def sparse_dim(self):
        """Return the number of dimensions that the indices count."""
        return len(self._places)

    def dense_dim(self):
        """Return the number of dimensions of a value."""
        return self.dim() - len(self._places)

    def _nnz(self):
        return self._places.shape[1]

    _indices, _values = indices, values

    def __deepcopy__(self, memo):
        return self.clone()

    def __reduce_ex__(self, protocol):
        raise NotImplementedError(f"torch.save: {sentence('Tensor.sparse_mask')}")

    def __repr__(self, *, tensor_contents=None):
        places, values = (repr(x.detach()).replace("\n", f"\n{' ' * n}") for x, n in self._shown())
        text = f"tensor(indices={places},\n       values={values},\n       size={tuple(self.shape)}, nnz={self._nnz()}"
        text += f", device='{self.device}'" if self.device.type != "cpu" else ""
        text += f", dtype={self.dtype}" if self._nnz() == 0 else ""
        return text + ", layout=torch.sparse_coo" + (", requires_grad=True)" if self.requires_grad else ")")

    def _shown(self):
        return (self.indices(), 15), (self.values(), 14)


def _wrap(dense, places):
    made = dense.as_subclass(_SparseTensor)
    made._places = places
    return made


def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """Return the tensor in coordinate format: see `Tensor.to_sparse`."""
    if isinstance(sparse_dim, _C.layout):
        sparse_dim, layout = None, sparse_dim
    if layout not in (None, torch.sparse_coo) or blocksize is not None or dense_dim is not None:
        raise NotImplementedError(f"to_sparse: {sentence('Tensor.sparse_mask')}")
    count = self.dim() if sparse_dim is None else sparse_dim
    if not 0 <= count <= self.dim():
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{self.dim()}] range, but {count} is given"
        )
    plain = self if type(self) is _C.Tensor else self.as_subclass(_C.Tensor)
    filled = plain.detach() != 0
    if count == 0:
        places = filled.new_zeros((0, 1 if filled.any().item() else 0), dtype=torch.int64)
    else:
        filled = filled.flatten(count).any(-1) if count < self.dim() else filled
        places = filled.nonzero().T.contiguous()
    return _wrap(plain, places)
