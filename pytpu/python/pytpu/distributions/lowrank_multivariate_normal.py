"""The distribution `LowRankMultivariateNormal`."""

from __future__ import annotations

import math

import pytpu as torch

from . import constraints
from .distribution import Distribution
from .multivariate_normal import _batch_mahalanobis, _batch_mv
from .utils import _standard_normal, lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(W, D):
    """Return the Cholesky factor of `I + W^T D^-1 W`, whose size is the rank."""
    capacitance = (W.mT / D.unsqueeze(-2)) @ W
    return torch.linalg.cholesky(capacitance + torch.eye(W.size(-1), dtype=W.dtype, device=W.device))


def _batch_lowrank_logdet(D, capacitance_tril):
    """Return `log det(W W^T + D) = log det(I + W^T D^-1 W) + log det(D)`."""
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W, D, x, capacitance_tril):
    """Return `x^T (W W^T + D)^-1 x`, by Woodbury's identity."""
    y = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, y)


class LowRankMultivariateNormal(Distribution):
    """Multivariate normal distribution with a covariance of low rank plus a diagonal.

    The covariance is `cov_factor @ cov_factor.mT + diag(cov_diag)`. Samples, densities and entropies need no matrix
    larger than `(n, m)`.

    Args:
        loc: Mean, of shape `(*, n)`.
        cov_factor: Factor, of shape `(*, n, m)`.
        cov_diag: Diagonal, of shape `(*, n)`, positive.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If shapes do not fit.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2))
        >>> d.variance
        tensor([2., 2.])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _expanded = {"loc": 1, "cov_diag": 1, "cov_factor": 2}
    _kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = torch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch_shape + event_shape)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def _of_batch(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        square = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return square.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        # Factor of the covariance after scaling its diagonal part to one, scaled back.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        matrix = scaled @ scaled.mT
        matrix = matrix + torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        return self._of_batch(root * torch.linalg.cholesky(matrix))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance."""
        W = self._unbroadcasted_cov_factor
        return self._of_batch(W @ W.mT + torch.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance."""
        D = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / D.unsqueeze(-2)
        part = torch.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._of_batch(torch.diag_embed(D.reciprocal()) - part.mT @ part)

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        like = {"dtype": self.loc.dtype, "device": self.loc.device}
        low = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **like)
        own = _standard_normal(shape, **like)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, low) + self._unbroadcasted_cov_diag.sqrt() * own

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        W, D, tril = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        square = _batch_lowrank_mahalanobis(W, D, value - self.loc, tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + _batch_lowrank_logdet(D, tril) + square)

    def entropy(self) -> Tensor:
        log_det = _batch_lowrank_logdet(self._unbroadcasted_cov_diag, self._capacitance_tril)
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_det)
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy
