"""The distribution `ContinuousBernoulli`."""

from __future__ import annotations

import math

import pytpu as torch
from pytpu.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._parameters import ProbsOrLogits, one_of
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Continuous Bernoulli distribution on `[0, 1]`.

    Density: `C(p) * p ** x * (1 - p) ** (1 - x)`, with a constant `C(p)`.

    Args:
        probs: The parameter `p`, in `(0, 1)`. Exactly one of `probs` and `logits` must be given.
        logits: Log-odds of `p`.
        lims: Interval around 1/2 in which Taylor series replace formulas that lose precision there.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.ContinuousBernoulli(0.5)
        >>> d.mean
        tensor(0.5000)

    Source:
        Loaiza-Ganem and Cunningham, "The continuous Bernoulli: fixing a pervasive error in variational autoencoders",
        2019.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _expanded = {"probs": 0, "logits": 0}
    _kept = ("_lims",)

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        one_of(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
            # Check before clamping, which would hide wrong values.
            if validate_args and not self.arg_constraints["probs"].check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        elif logits is not None:
            (self.logits,) = broadcast_all(logits)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def _is_far(self):
        """Return whether `p` is far enough from 1/2."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _far_probs(self):
        """Return `p`, or the lower limit if it is near 1/2."""
        return torch.where(self._is_far(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self):
        """Return `log(C(p))`, with `C(p) = 2 * atanh(1 - 2 * p) / (1 - 2 * p)`."""
        p = self._far_probs()
        below = torch.where(p <= 0.5, p, 0.0)
        above = torch.where(p >= 0.5, p, 1.0)
        width = torch.where(p <= 0.5, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0))
        far = torch.log(torch.abs(torch.log1p(-p) - torch.log(p))) - width
        x = (self.probs - 0.5) ** 2
        return torch.where(self._is_far(), far, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        p = self._far_probs()
        far = p / (2.0 * p - 1.0) + 1.0 / (torch.log1p(-p) - torch.log(p))
        x = self.probs - 0.5
        return torch.where(self._is_far(), far, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x)

    @property
    def stddev(self) -> Tensor:
        return torch.sqrt(self.variance)

    @property
    def variance(self) -> Tensor:
        p = self._far_probs()
        far = p * (p - 1.0) / (1.0 - 2.0 * p) ** 2 + 1.0 / (torch.log1p(-p) - torch.log(p)) ** 2
        x = (self.probs - 0.5) ** 2
        return torch.where(self._is_far(), far, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._far_probs()
        far = (torch.pow(p, value) * torch.pow(1.0 - p, 1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        return torch.where(self._is_far(), far, value).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        p = self._far_probs()
        far = (torch.log1p(-p + value * (2.0 * p - 1.0)) - torch.log1p(-p)) / (torch.log(p) - torch.log1p(-p))
        return torch.where(self._is_far(), far, value)

    def entropy(self) -> Tensor:
        log_zero, log_one = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (log_zero - log_one) - self._cont_bern_log_norm() - log_zero

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        """Return `log((exp(x) - 1) / x)`, by its series around 0."""
        is_far = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        far = torch.where(is_far, x, self._lims[0] - 0.5)
        log_norm = torch.log(torch.abs(torch.special.expm1(far))) - torch.log(torch.abs(far))
        return torch.where(is_far, log_norm, 0.5 * x + x**2 / 24.0 - x**4 / 2880.0)
