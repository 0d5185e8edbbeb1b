"""The distributions `LogitRelaxedBernoulli` and `RelaxedBernoulli`."""

from __future__ import annotations

import pytpu as torch

from . import constraints
from ._parameters import OfBase, ProbsOrLogits, one_of
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """Log-odds of a `RelaxedBernoulli` variable.

    It is logistic noise around logits, divided by a temperature.

    Args:
        temperature: Temperature, positive.
        probs: Probability of a one. Exactly one of `probs` and `logits` must be given.
        logits: Log-odds of a one: `log(probs / (1 - probs))`.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
        >>> d = LogitRelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.2, 0.8]))
        >>> d.sample().shape
        torch.Size([2])

    Source:
        Maddison, Mnih and Teh, "The Concrete Distribution", 2017.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _expanded = {"probs": 0, "logits": 0}
    _kept = ("temperature",)

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        one_of(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        elif logits is not None:
            (self.logits,) = broadcast_all(logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(torch.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value.mul(self.temperature)
        return self.temperature.log() + away - 2 * away.exp().log1p()


class RelaxedBernoulli(OfBase, TransformedDistribution):
    """Continuous relaxation of a `Bernoulli`, whose samples are differentiable.

    Samples are in `(0, 1)`. At low temperatures they are close to 0 or 1.

    Args:
        temperature: Temperature, positive.
        probs: Probability of a one. Exactly one of `probs` and `logits` must be given.
        logits: Log-odds of a one: `log(probs / (1 - probs))`.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.RelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.2, 0.8]))
        >>> d.rsample().shape
        torch.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _expanded: dict[str, int] = {}

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args
        )
