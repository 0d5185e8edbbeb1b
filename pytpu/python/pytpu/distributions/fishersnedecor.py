"""The distribution `FisherSnedecor`."""

from __future__ import annotations

import pytpu as torch

from . import constraints
from ._parameters import nan_where
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """F-distribution: ratio of two chi-squared variables, each divided by its degrees of freedom.

    Args:
        df1: Degrees of freedom of the numerator, positive.
        df2: Degrees of freedom of the denominator, positive.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.FisherSnedecor(2.0, 4.0)
        >>> d.mean
        tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expanded = {"df1": 0, "df2": 0, "_gamma1": 0, "_gamma2": 0}

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return nan_where(self.df2 <= 2, self.df2 / (self.df2 - 2))

    @property
    def mode(self) -> Tensor:
        return nan_where(self.df1 <= 2, (self.df1 - 2) / self.df1 * (self.df2 / (self.df2 + 2)))

    @property
    def variance(self) -> Tensor:
        m, n = self.df1, self.df2
        return nan_where(n <= 4, 2 * n.pow(2) * (m + n - 2) / (m * (n - 2).pow(2) * (n - 4)))

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        tiny = torch.finfo(self.df2.dtype).tiny
        numerator = self._gamma1.rsample(sample_shape).view(shape)
        denominator = self._gamma2.rsample(sample_shape).view(shape).clamp(min=tiny)
        return (numerator / denominator).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        m, n = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        return (
            (m + n).lgamma()
            - m.lgamma()
            - n.lgamma()
            + m * ratio.log()
            + (m - 1) * torch.log(value)
            - (m + n) * torch.log1p(ratio * value)
        )
