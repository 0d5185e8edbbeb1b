"""The distribution `MultivariateNormal`."""

from __future__ import annotations

import math

import pytpu as torch

from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["MultivariateNormal"]


def _batch_mv(matrix, vector):
    """Return products of matrices and vectors, for batches that broadcast."""
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(tril, x):
    """Return `x^T (tril tril^T)^-1 x`, for batches that broadcast."""
    if tril.dim() == 2:
        # One matrix for all: they are columns of one system.
        columns = x.reshape(-1, x.shape[-1]).mT
        return torch.linalg.solve_triangular(tril, columns, upper=False).pow(2).sum(0).reshape(x.shape[:-1])
    return torch.linalg.solve_triangular(tril, x.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))


def _precision_to_scale_tril(P):
    """Return the Cholesky factor of the inverse of a positive definite matrix."""
    # P = U U^T with an upper U, the factor of P with its order reversed. The inverse of P is U^-T U^-1.
    upper = torch.flip(torch.linalg.cholesky(torch.flip(P, (-2, -1))), (-2, -1))
    eye = torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return torch.linalg.solve_triangular(upper.mT, eye, upper=False)


class MultivariateNormal(Distribution):
    """Multivariate normal distribution of vectors with `p` elements.

    All computations use the factor `scale_tril`.

    Args:
        loc: Mean, of shape `(*, p)`.
        covariance_matrix: Covariance, of shape `(*, p, p)`. Exactly one of the three matrices must be given.
        precision_matrix: Inverse of the covariance, of shape `(*, p, p)`.
        scale_tril: Cholesky factor of the covariance, of shape `(*, p, p)`.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one matrix is given, or if shapes do not fit.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
        >>> d.log_prob(torch.zeros(2))
        tensor(-1.8379)
        >>> d.variance
        tensor([1., 1.])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _expanded = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            name: matrix
            for name, matrix in (
                ("covariance_matrix", covariance_matrix),
                ("scale_tril", scale_tril),
                ("precision_matrix", precision_matrix),
            )
            if matrix is not None
        }
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{what} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + matrix.shape[-2:]))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def _of_batch(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        return self._of_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance."""
        tril = self._unbroadcasted_scale_tril
        return self._of_batch(tril @ tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance."""
        return self._of_batch(torch.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        eps = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        square = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + square) - self._half_log_det()

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy
