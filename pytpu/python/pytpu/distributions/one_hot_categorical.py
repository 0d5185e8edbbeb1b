"""The distributions `OneHotCategorical` and `OneHotCategoricalStraightThrough`."""

from __future__ import annotations

import pytpu as torch

from . import constraints
from ._parameters import OfCategorical
from .categorical import Categorical
from .distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OfCategorical, Distribution):
    """Categorical distribution whose samples are vectors of shape `(k,)` with one 1.

    Args:
        probs: Tensor of shape `(*, k)` of weights that are not negative. They are divided by their sum. Exactly one
            of `probs` and `logits` must be given.
        logits: Tensor of shape `(*, k)` of unnormalized log-probabilities.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.OneHotCategorical(torch.tensor([1.0, 3.0]))
        >>> d.mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _expanded = {"_categorical": 0}

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        mode = self._categorical.probs.argmax(dim=-1)
        return torch.nn.functional.one_hot(mode, num_classes=self._categorical._num_events).to(self._categorical.probs)

    @property
    def variance(self) -> Tensor:
        return self._categorical.probs * (1 - self._categorical.probs)

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        classes = self._categorical.sample(sample_shape)
        return torch.nn.functional.one_hot(classes, self._categorical._num_events).to(self._categorical.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = torch.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + self.batch_shape + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A `OneHotCategorical` whose samples have the gradient of the probabilities.

    Args:
        probs: Tensor of shape `(*, k)` of weights that are not negative. They are divided by their sum. Exactly one
            of `probs` and `logits` must be given.
        logits: Tensor of shape `(*, k)` of unnormalized log-probabilities.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.OneHotCategoricalStraightThrough(torch.tensor([1.0, 3.0]))
        >>> d.rsample().sum()
        tensor(1.)

    Source:
        Bengio, Leonard and Courville, "Estimating or Propagating Gradients Through Stochastic Neurons", 2013.
    """

    has_rsample = True
    _expanded = OneHotCategorical._expanded

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        drawn = self.sample(sample_shape)
        probs = self._categorical.probs
        return drawn + (probs - probs.detach())
