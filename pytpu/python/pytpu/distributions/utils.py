"""What distributions share: parameters of one shape, probabilities and logits, triangles as vectors."""

from functools import update_wrapper
from itertools import count
from numbers import Number

import pytpu as torch
from pytpu.nn import functional as F

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values):
    """Tensors and numbers as tensors of one shape; numbers get the dtype and device of the first tensor."""
    if not all(
        isinstance(value, (Number, torch.Tensor)) or hasattr(type(value), "__torch_function__") for value in values
    ):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((value for value in values if isinstance(value, torch.Tensor)), None)
    like = {"dtype": torch.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    return torch.broadcast_tensors(
        *(torch.tensor(value, **like) if isinstance(value, Number) else value for value in values)
    )


def _standard_normal(shape, dtype, device):
    return torch.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value, dims):
    """The sum over the last `dims` dimensions."""
    return value if dims == 0 else value.sum(list(range(-dims, 0)))


def _all_rightmost(value, dims):
    """Whether all are true, over the last `dims` dimensions."""
    return value if dims == 0 else value.reshape(value.shape[: value.dim() - dims] + (-1,)).all(-1)


def logits_to_probs(logits, is_binary=False):
    """Probabilities: of a one if `is_binary`, else of the classes along the last dimension."""
    return torch.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Probabilities that are neither 0 nor 1."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """The inverse of `logits_to_probs`, finite for probabilities of 0 and 1 too."""
    probs = clamp_probs(probs)
    return torch.log(probs) - torch.log1p(-probs) if is_binary else torch.log(probs)


class lazy_property:
    """A property that is computed when it is first read, and is an attribute from then on."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        update_wrapper(self, wrapped)

    def __get__(self, instance, owner=None):
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What a class shows of its lazy property: documentation and inspection look for properties."""

    def __init__(self, wrapped):
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat, diag=0):
    """The lower triangles `[..., d, d]` of matrices as vectors, row by row; `diag` is the last diagonal that belongs to them.

    Raises:
        ValueError: where `diag` is outside of `[-d, d - 1]`
    """
    n = mat.shape[-1]
    _check_diagonal(diag, n)
    rows, columns = torch.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec, diag=0):
    """Vectors of lower triangles, row by row, as matrices `[..., d, d]` with zeros elsewhere.

    Raises:
        ValueError: where the length is that of no triangle
    """
    length = vec.shape[-1]
    n = next(n for n in count(max(-diag, 0)) if _triangle(n, diag) >= length)
    if _triangle(n, diag) != length:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower triangular part of a square "
            "D x D matrix."
        )
    rows, columns = torch.tril_indices(n, n, diag, device=vec.device)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    mat[..., rows, columns] = vec
    return mat


def _triangle(n, diag):
    """How many entries of a square of `n` lie on the diagonal `diag` or below."""
    return sum(min(max(row + 1 + diag, 0), n) for row in range(n))


def _check_diagonal(diag, n):
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
