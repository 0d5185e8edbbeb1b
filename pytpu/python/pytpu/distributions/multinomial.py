"""The distribution `Multinomial`."""

from __future__ import annotations

import pytpu as torch

from . import constraints
from ._parameters import OfCategorical
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from pytpu import Tensor

    from .constraints import Constraint


__all__ = ["Multinomial"]


class Multinomial(OfCategorical, Distribution):
    """Multinomial distribution: the number of occurrences of each class among `total_count` draws.

    Args:
        total_count: Number of draws, one for the whole batch.
        probs: Tensor of shape `(*, k)` of weights that are not negative. They are divided by their sum. Exactly one
            of `probs` and `logits` must be given.
        logits: Tensor of shape `(*, k)` of unnormalized log-probabilities.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.Multinomial(4, torch.tensor([1.0, 3.0]))
        >>> d.mean
        tensor([1., 3.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _expanded = {"_categorical": 0}
    _kept = ("total_count",)

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._binomial = self._binomial.expand(torch.Size(batch_shape) + self._event_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        classes = self._categorical.sample(torch.Size((self.total_count,)) + torch.Size(sample_shape))
        # The draws are along the last dimension.
        classes = classes.movedim(0, -1)
        counts = self.probs.new_zeros(self._extended_shape(sample_shape))
        counts = counts.scatter_add(-1, classes, torch.ones_like(classes, dtype=counts.dtype))
        return counts.type_as(self.probs)

    def entropy(self) -> Tensor:
        n = torch.tensor(self.total_count, dtype=self.probs.dtype, device=self.probs.device)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        expected = torch.exp(self._binomial.log_prob(counts)) * torch.lgamma(counts + 1)
        return n * self._categorical.entropy() - torch.lgamma(n + 1) + expected.sum([0, -1])

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        # A class that cannot be drawn, and is not.
        logits = torch.where((value == 0) & (logits == -torch.inf), 0, logits)
        return torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)
