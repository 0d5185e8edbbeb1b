"""The distribution `Kumaraswamy`."""

from __future__ import annotations

import pytpu as torch

from . import constraints
from ._parameters import nan_where
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor


__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy distribution: `(1 - u ** (1 / concentration0)) ** (1 / concentration1)` with a uniform `u`.

    The mode is that of the density if both parameters are at least 1, otherwise NaN. In PyTorch it is always NaN.

    Args:
        concentration1: First shape, positive.
        concentration0: Second shape, positive.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.Kumaraswamy(1.0, 1.0)
        >>> d.mean
        tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _expanded = {"concentration1": 0, "concentration0": 0}

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros, ones = torch.zeros_like(self.concentration0), torch.ones_like(self.concentration0)
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(Uniform(zeros, ones, validate_args=validate_args), transforms, validate_args=validate_args)

    def _moment(self, n):
        """Return the mean of the `n`th power: `b * B(1 + n / a, b)`."""
        first, b = 1 + n / self.concentration1, self.concentration0
        return b * torch.exp(torch.lgamma(first) + torch.lgamma(b) - torch.lgamma(first + b))

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return nan_where((a < 1) | (b < 1), ((a - 1) / (a * b - 1)) ** a.reciprocal())

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = torch.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - torch.log(a) - torch.log(b)
