"""The distribution `Categorical`."""

from __future__ import annotations

import pytpu as torch

from . import constraints
from ._parameters import ProbsOrLogits, one_of
from .distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor

    from .constraints import Constraint


__all__ = ["Categorical"]


class Categorical(ProbsOrLogits, Distribution):
    """Categorical distribution over the classes `0` to `k - 1`.

    The last dimension of `probs` or `logits` counts the classes.

    Args:
        probs: Tensor of shape `(*, k)` of weights that are not negative. They are divided by their sum. Exactly one
            of `probs` and `logits` must be given.
        logits: Tensor of shape `(*, k)` of unnormalized log-probabilities.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given, with at least one dimension.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.Categorical(torch.tensor([1.0, 3.0]))
        >>> d.log_prob(torch.tensor([0, 1]))
        tensor([-1.3863, -0.2877])
        >>> d.mode
        tensor(1)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    _expanded = {"probs": 1, "logits": 1}
    _kept = ("_num_events",)

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        one_of(probs, logits)
        if probs is not None:
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.probs = probs / probs.sum(-1, keepdim=True)
        elif logits is not None:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    def _nan(self):
        return torch.full(self._extended_shape(), torch.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mean(self) -> Tensor:
        return self._nan()

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        return self._nan()

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        if not isinstance(sample_shape, torch.Size):
            sample_shape = torch.Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        return torch.multinomial(rows, sample_shape.numel(), True).T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, log_pmf = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return log_pmf.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # A logit of minus infinity counts nothing.
        logits = torch.clamp(self.logits, min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = torch.arange(self._num_events, dtype=torch.long, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
