"""The distribution `NegativeBinomial`."""

from __future__ import annotations

import pytpu as torch
from pytpu.nn.functional import logsigmoid

from . import constraints
from ._parameters import ProbsOrLogits, one_of
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all, lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsOrLogits, Distribution):
    """Negative binomial distribution: number of successes before `total_count` failures.

    Args:
        total_count: Number of failures, at least 0.
        probs: Probability of success, in `[0, 1)`. Exactly one of `probs` and `logits` must be given.
        logits: Log-odds of success.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.NegativeBinomial(3, probs=0.5)
        >>> d.mean
        tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _expanded = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        one_of(probs, logits)
        if probs is not None:
            self.total_count, self.probs = broadcast_all(total_count, probs)
        elif logits is not None:
            self.total_count, self.logits = broadcast_all(total_count, logits)
        self.total_count = self.total_count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / torch.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self):
        # The rate of the Poisson variable.
        return Gamma(concentration=self.total_count, rate=torch.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        powers = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        log_norm = -torch.lgamma(n + value) + torch.lgamma(1.0 + value) + torch.lgamma(n)
        # With no counts, both gamma functions are infinite.
        return powers - log_norm.masked_fill(n + value == 0.0, 0.0)
