"""The distribution `InverseGamma`."""

from __future__ import annotations

import pytpu as torch

from . import constraints
from ._parameters import inf_where
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor


__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """Inverse gamma distribution: `1 / x` with `x` from `Gamma(concentration, rate)`.

    Args:
        concentration: Shape of the gamma variable, positive.
        rate: Rate of the gamma variable, positive.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.InverseGamma(torch.tensor(3.0), torch.tensor(1.0))
        >>> d.mean
        tensor(0.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expanded: dict[str, int] = {}

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(-torch.ones((), dtype=base.rate.dtype, device=base.rate.device))
        super().__init__(base, power, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """Shape of the gamma variable."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Rate of the gamma variable."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return inf_where(self.concentration <= 1, self.rate / (self.concentration - 1))

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return inf_where(a <= 2, self.rate.square() / ((a - 1).square() * (a - 2)))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
