"""The distribution `StudentT`."""

from __future__ import annotations

import math

import pytpu as torch

from . import constraints
from ._parameters import nan_where
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t-distribution.

    It is the distribution of `loc + scale * x / sqrt(y / df)`, with `x` from `Normal(0, 1)` and `y` from `Chi2(df)`.

    Args:
        df: Degrees of freedom, positive.
        loc: Center.
        scale: Scale, positive.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.StudentT(4.0)
        >>> d.variance
        tensor(2.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _expanded = {"df": 0, "loc": 0, "scale": 0, "_chi2": 0}

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return nan_where(self.df <= 1, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        df = self.df
        finite = self.scale.pow(2) * df / (df - 2)
        return nan_where(df <= 1, torch.where(df > 2, finite, torch.inf))

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        y = x * torch.rsqrt(self._chi2.rsample(sample_shape) / self.df)
        return self.loc + self.scale * y

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half, y = 0.5 * self.df, (value - self.loc) / self.scale
        log_norm = (
            self.scale.log() + 0.5 * (self.df.log() + math.log(math.pi)) + torch.lgamma(half) - torch.lgamma(half + 0.5)
        )
        return -(half + 0.5) * torch.log1p(y**2.0 / self.df) - log_norm

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        log_beta = torch.lgamma(half) + math.lgamma(0.5) - torch.lgamma(half + 0.5)
        slope = torch.digamma(half + 0.5) - torch.digamma(half)
        return self.scale.log() + (half + 0.5) * slope + 0.5 * self.df.log() + log_beta
