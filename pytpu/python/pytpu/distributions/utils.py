"""Functions of several distributions: broadcasting, `probs` and `logits`, and triangles as vectors."""

from __future__ import annotations

from functools import update_wrapper
from itertools import count
from numbers import Number

import pytpu as torch
from pytpu.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytpu import Tensor


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


def broadcast_all(*values: Tensor | complex) -> tuple[Tensor, ...]:
    """Broadcast tensors and numbers to tensors of one shape.

    Args:
        values: Tensors and numbers. Numbers take the dtype and the device of the first tensor.

    Raises:
        ValueError: If a value is neither a tensor nor a number.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.utils.broadcast_all(torch.zeros(2), 1.0)
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    if not all(
        isinstance(value, (Number, torch.Tensor)) or hasattr(type(value), "__torch_function__") for value in values
    ):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((value for value in values if isinstance(value, torch.Tensor)), None)
    like = {"dtype": torch.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    tensors: list[Any] = [torch.tensor(value, **like) if isinstance(value, Number) else value for value in values]
    return torch.broadcast_tensors(*tensors)


def _standard_normal(shape, dtype, device):
    return torch.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value, dims):
    """Return the sum over the last `dims` dimensions."""
    return value if dims == 0 else value.sum(list(range(-dims, 0)))


def _all_rightmost(value, dims):
    """Return whether all are true, over the last `dims` dimensions."""
    return value if dims == 0 else value.reshape(value.shape[: value.dim() - dims] + (-1,)).all(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Convert logits to probabilities.

    Args:
        logits: Log-odds if `is_binary`, otherwise unnormalized log-probabilities along the last dimension.
        is_binary: If `True`, return the probability of a one.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.utils.logits_to_probs(torch.zeros(4))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return torch.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities so that they are neither 0 nor 1."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Convert probabilities to logits. The result is finite also for 0 and 1.

    Args:
        probs: Probabilities.
        is_binary: If `True`, return log-odds, otherwise log-probabilities.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.utils.probs_to_logits(torch.tensor(0.5), is_binary=True)
        tensor(0.)
    """
    probs = clamp_probs(probs)
    return torch.log(probs) - torch.log1p(-probs) if is_binary else torch.log(probs)


class lazy_property:
    """A property that is computed when it is first read, and is an attribute from then on.

    Args:
        wrapped: Function of the object.
    """

    def __init__(self, wrapped: Callable[..., Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]  # It takes any object with a `__dict__`.

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """A lazy property as its class shows it: a property, for documentation and inspection."""

    def __init__(self, wrapped):
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the lower triangles of matrices as vectors, row by row.

    Args:
        mat: Tensor of shape `(*, d, d)`.
        diag: Last diagonal that belongs to the triangle.

    Raises:
        ValueError: If `diag` is not in `[-d, d - 1]`.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.utils.tril_matrix_to_vec(torch.tensor([[1, 2], [3, 4]]))
        tensor([1, 3, 4])
    """
    n = mat.shape[-1]
    _check_diagonal(diag, n)
    rows, columns = torch.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return matrices with these lower triangles, and zeros elsewhere.

    Args:
        vec: Tensor whose last dimension holds a triangle, row by row.
        diag: Last diagonal that belongs to the triangle.

    Raises:
        ValueError: If no triangle has this number of elements.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.utils.vec_to_tril_matrix(torch.tensor([1, 3, 4]))
        tensor([[1, 0],
                [3, 4]])
    """
    length = vec.shape[-1]
    n = next(n for n in count(max(-diag, 0)) if _triangle(n, diag) >= length)
    if _triangle(n, diag) != length:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower triangular part of a "
            "square "
            "D x D matrix."
        )
    rows, columns = torch.tril_indices(n, n, diag, device=vec.device)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    mat[..., rows, columns] = vec
    return mat


def _triangle(n, diag):
    """Return the number of entries of an `n` by `n` matrix on the diagonal `diag` or below."""
    return sum(min(max(row + 1 + diag, 0), n) for row in range(n))


def _check_diagonal(diag, n):
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
