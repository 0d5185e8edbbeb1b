"""Quotients of variances."""

import pytpu as torch

from . import constraints
from ._parameters import nan_where
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The quotient of two means of squares of normal variables, of `df1` and of `df2` of them."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expanded = {"df1": 0, "df2": 0, "_gamma1": 0, "_gamma2": 0}

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    @property
    def mean(self):
        return nan_where(self.df2 <= 2, self.df2 / (self.df2 - 2))

    @property
    def mode(self):
        return nan_where(self.df1 <= 2, (self.df1 - 2) / self.df1 * (self.df2 / (self.df2 + 2)))

    @property
    def variance(self):
        m, n = self.df1, self.df2
        return nan_where(n <= 4, 2 * n.pow(2) * (m + n - 2) / (m * (n - 2).pow(2) * (n - 4)))

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        tiny = torch.finfo(self.df2.dtype).tiny
        numerator = self._gamma1.rsample(sample_shape).view(shape)
        denominator = self._gamma2.rsample(sample_shape).view(shape).clamp(min=tiny)
        return (numerator / denominator).clamp(min=tiny)

    def log_prob(self, value):
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
