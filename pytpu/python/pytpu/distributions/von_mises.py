"""The distribution `VonMises`."""

from __future__ import annotations

import math

import pytpu as torch

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["VonMises"]


def _log_i0(x):
    """Return the logarithm of the modified Bessel function of order 0."""
    return torch.log(torch.special.i0e(x)) + x


class VonMises(Distribution):
    """Von Mises distribution of angles in `[-pi, pi)`.

    Density: `exp(concentration * cos(x - loc)) / (2 * pi * I0(concentration))`. Samples are drawn in `float64`.

    Args:
        loc: Mean angle, in radians.
        concentration: Concentration, positive.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.VonMises(torch.tensor(0.0), torch.tensor(1.0))
        >>> d.mean
        tensor(0.)

    Source:
        Best and Fisher, "Efficient Simulation of the von Mises Distribution", 1979.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _expanded = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, torch.Size(), validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.concentration * torch.cos(value - self.loc) - math.log(2 * math.pi) - _log_i0(self.concentration)

    @lazy_property
    def _proposal_r(self):
        # The parameter of the wrapped Cauchy distribution of proposals. Small concentrations use its series.
        kappa = self.concentration.to(torch.double)
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    @torch.no_grad()
    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        loc, kappa, r = self.loc.to(torch.double), self.concentration.to(torch.double), self._proposal_r
        x = torch.empty(shape, dtype=torch.double, device=self.loc.device)
        done = torch.zeros(shape, dtype=torch.bool, device=self.loc.device)
        kappa, r = kappa.expand(shape), r.expand(shape)
        while not done.all():
            u1, u2, u3 = torch.rand((3, *shape), dtype=torch.double, device=self.loc.device).unbind()
            z = torch.cos(math.pi * u1)
            f = (1 + r * z) / (r + z)
            c = kappa * (r - f)
            accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
            if accept.any():
                x = torch.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
        return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance, `1 - I1(concentration) / I0(concentration)`."""
        return 1 - torch.special.i1e(self.concentration) / torch.special.i0e(self.concentration)
