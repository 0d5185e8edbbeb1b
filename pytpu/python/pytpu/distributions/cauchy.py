"""The distribution `Cauchy`."""

from __future__ import annotations

import math

import pytpu as torch

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """Cauchy distribution. Its mean is NaN, and its variance is infinite.

    Density: `1 / (pi * scale * (1 + ((x - loc) / scale) ** 2))`.

    Args:
        loc: Median.
        scale: Half width at half maximum, positive.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.Cauchy(0.0, 1.0)
        >>> d.cdf(torch.tensor(1.0))
        tensor(0.7500)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _expanded = {"loc": 0, "scale": 0}

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return torch.full(self._extended_shape(), torch.nan, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return torch.full(self._extended_shape(), torch.inf, dtype=self.loc.dtype, device=self.loc.device)

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        eps = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return torch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
