"""The distribution `Binomial`."""

from __future__ import annotations

import pytpu as torch

from . import constraints
from ._parameters import ProbsOrLogits, one_of
from .distribution import Distribution
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor

    from .constraints import Constraint


__all__ = ["Binomial"]


def _positive_part(x):
    """Return `max(x, 0)`, with the gradient 1/2 at 0."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(ProbsOrLogits, Distribution):
    """Binomial distribution: number of successes among `total_count` trials.

    Args:
        total_count: Number of trials.
        probs: Probability of success. Exactly one of `probs` and `logits` must be given.
        logits: Log-odds of success.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.Binomial(10, probs=0.5)
        >>> d.mean
        tensor(5.)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _expanded = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self,
        total_count: Tensor | int = 1,
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

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        # n log(1 + exp(logits)) without overflow. This form of the sum has no NaN at n for infinite logits.
        n_softplus = n * _positive_part(logits) + n * torch.log1p(torch.exp(-torch.abs(logits)))
        return (
            value * logits - torch.lgamma(value + 1) - torch.lgamma(n - value + 1) - (n_softplus - torch.lgamma(n + 1))
        )

    def entropy(self) -> Tensor:
        log_probs = self.log_prob(self._values("entropy", False))
        return -(torch.exp(log_probs) * log_probs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._values("enumerate_support", expand)

    def _values(self, asked, expand):
        n = int(self.total_count.max())
        if not self.total_count.min() == n:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        values = torch.arange(1 + n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
