"""The distribution `GeneralizedPareto`."""

from __future__ import annotations

from numbers import Number

import pytpu as torch

from . import constraints
from ._parameters import nan_where
from .distribution import Distribution
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor

    from .constraints import Constraint


__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Generalized Pareto distribution of values above a threshold.

    `P(x > loc + scale * z) = (1 + concentration * z) ** (-1 / concentration)`, or `exp(-z)` if `concentration` is 0.
    With a negative `concentration`, values end at `loc - scale / concentration`. The mean exists for a `concentration`
    below 1, and the variance below 1/2. They are NaN otherwise.

    Args:
        loc: Threshold.
        scale: Scale, positive.
        concentration: Shape.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.GeneralizedPareto(0.0, 1.0, 0.5)
        >>> d.mean
        tensor(2.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _expanded = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, torch.where(self.concentration < 0, end, torch.inf))

    def _is_exponential(self):
        return torch.isclose(self.concentration, torch.zeros_like(self.concentration))

    def _slope(self):
        """Return the concentration, or 1 where it is 0, so that the branch that is not selected is finite."""
        return torch.where(self._is_exponential(), torch.ones_like(self.concentration), self.concentration)

    def _z(self, x):
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z, k = self._z(value), self._slope()
        return torch.where(self._is_exponential(), -z, -(1 / k + 1) * torch.log1p(k * z)) - torch.log(self.scale)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the log-probability of samples greater than `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z, k = self._z(value), self._slope()
        return torch.where(self._is_exponential(), -z, -torch.log1p(k * z) / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of `cdf(value)`."""
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return torch.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        k = self._slope()
        if isinstance(value, Number):
            value = torch.as_tensor(value, dtype=self.loc.dtype, device=self.loc.device)
        log_survival = torch.log1p(-value)
        excess = self.scale / k * torch.expm1(-k * log_survival)
        return self.loc + torch.where(self._is_exponential(), -self.scale * log_survival, excess)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        return nan_where(k >= 1, self.loc + self.scale / (1 - k))

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        return nan_where(k >= 0.5, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)))

    def entropy(self) -> Tensor:
        return torch.log(self.scale) + self.concentration + 1

    @property
    def mode(self) -> Tensor:
        return self.loc
