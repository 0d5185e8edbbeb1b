"""Reciprocals of gamma variables."""

import pytpu as torch

from . import constraints
from ._parameters import inf_where
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """`1 / x` of `x` from `Gamma(concentration, rate)`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expanded = {}

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(-torch.ones((), dtype=base.rate.dtype, device=base.rate.device))
        super().__init__(base, power, validate_args=validate_args)

    @property
    def concentration(self):
        """The concentration."""
        return self.base_dist.concentration

    @property
    def rate(self):
        """The rate of the gamma variable."""
        return self.base_dist.rate

    @property
    def mean(self):
        return inf_where(self.concentration <= 1, self.rate / (self.concentration - 1))

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        a = self.concentration
        return inf_where(a <= 2, self.rate.square() / ((a - 1).square() * (a - 2)))

    def entropy(self):
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
