"""The distribution `Wishart`."""

from __future__ import annotations

import math
import warnings
from numbers import Number

import pytpu as torch

from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import _precision_to_scale_tril
from .utils import lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from pytpu import Tensor

    from .constraints import Constraint


__all__ = ["Wishart"]


def _mvdigamma(x, p):
    """Return the derivative of the multivariate log-gamma function: a sum of `p` digamma functions."""
    steps = torch.arange(p, dtype=x.dtype, device=x.device) / 2
    return torch.digamma(x.unsqueeze(-1) - steps).sum(-1)


class Wishart(ExponentialFamily):
    """Wishart distribution of sums of outer products of `df` normal vectors with `p` elements.

    Samples use Bartlett's decomposition. Singular samples are drawn again, a few times at most.

    Args:
        df: Degrees of freedom, greater than `p - 1`.
        covariance_matrix: Covariance, of shape `(*, p, p)`. Exactly one of the three matrices must be given.
        precision_matrix: Inverse of the covariance, of shape `(*, p, p)`.
        scale_tril: Cholesky factor of the covariance, of shape `(*, p, p)`.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If `df` is at most `p - 1`, or shapes do not fit.
        AssertionError: Unless exactly one matrix is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2))
        >>> d.mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _expanded = {
        "df": 0,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
    }

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            name: matrix
            for name, matrix in (
                ("covariance_matrix", covariance_matrix),
                ("precision_matrix", precision_matrix),
                ("scale_tril", scale_tril),
            )
            if matrix is not None
        }
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, (int, float)) or isinstance(df, Number):
            batch_shape = torch.Size(matrix.shape[:-2])
            self.df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        setattr(self, name, matrix.expand(batch_shape + event_shape))
        if self.df.lt(event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._batch_dims = [-(i + 1) for i in range(len(self._batch_shape))]
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)
        # The square on each place of the diagonal has one degree of freedom less than the one before.
        places = torch.arange(event_shape[-1], dtype=self.df.dtype, device=self.df.device)
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - places.expand(batch_shape + (-1,)))

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._batch_dims = [-(i + 1) for i in range(len(new._batch_shape))]
        new._dist_chi2 = self._dist_chi2.expand(torch.Size(batch_shape) + self.event_shape[-1:])
        return new

    def _of_batch(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape)

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

    def _of_df(self, number):
        """Return numbers of the batch, for matrices."""
        return number.reshape(self._batch_shape + (1, 1))

    @property
    def mean(self) -> Tensor:
        return self._of_df(self.df.expand(self._batch_shape)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        factor = torch.where(factor <= 0, torch.nan, factor)
        return self._of_df(factor.expand(self._batch_shape)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._of_df(self.df.expand(self._batch_shape)) * (V.pow(2) + outer)

    def _bartlett_sampling(self, sample_shape=torch.Size()):
        """Draw samples, singular or not."""
        p = self._event_shape[-1]
        diagonal = self._dist_chi2.rsample(sample_shape).clamp(min=torch.finfo(self.df.dtype).tiny).sqrt()
        rows, columns = torch.tril_indices(p, p, offset=-1, device=diagonal.device)
        below = torch.randn(
            torch.Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,),
            dtype=diagonal.dtype,
            device=diagonal.device,
        )
        strictly = torch.zeros(diagonal.shape + (p,), dtype=diagonal.dtype, device=diagonal.device)
        strictly[..., rows, columns] = below
        factor = self._unbroadcasted_scale_tril @ (strictly + diagonal.diag_embed())
        return factor @ factor.mT

    def rsample(self, sample_shape: Sequence[int] = torch.Size(), max_try_correction: int | None = None) -> Tensor:
        """Draw samples that are differentiable in the parameters.

        Args:
            sample_shape: Shape of the samples, before `batch_shape`.
            max_try_correction: How often singular samples are drawn again. `None` is 3.
        """
        tries = 3 if max_try_correction is None else max_try_correction
        sample_shape = torch.Size(sample_shape)
        sample = self._bartlett_sampling(sample_shape)
        # PyTorch replaces all first samples. So does this loop, for the same numbers.
        singular = torch.ones(sample_shape, dtype=torch.bool, device=sample.device)
        for _ in range(tries):
            again = self._bartlett_sampling(sample_shape)
            sample = torch.where(
                singular.reshape(singular.shape + (1,) * (sample.dim() - singular.dim())), again, sample
            )
            singular = ~self.support.check(sample)
            if self._batch_dims:
                singular = singular.amax(self._batch_dims)
            if not singular.any():
                break
            warnings.warn("Singular sample detected.", stacklevel=2)
        return sample

    def _log_det(self):
        """Return the log-determinant of the covariance."""
        return 2 * self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        trace = torch.cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -0.5 * nu * (p * math.log(2) + self._log_det())
            - torch.mvlgamma(nu / 2, p=p)
            + (nu - p - 1) / 2 * torch.linalg.slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) / 2 * (p * math.log(2) + self._log_det())
            + torch.mvlgamma(nu / 2, p=p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p)
            + nu * p / 2
        )

    @property
    def _natural_params(self):
        return (-self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2)

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (p * math.log(2) - torch.linalg.slogdet(-2 * x).logabsdet) + torch.mvlgamma(half, p=p)
