"""The distributions `ExpRelaxedCategorical` and `RelaxedOneHotCategorical`."""

from __future__ import annotations

import pytpu as torch

from . import constraints
from ._parameters import OfBase, OfCategorical
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OfCategorical, Distribution):
    """Logarithm of a `RelaxedOneHotCategorical` variable.

    It is Gumbel noise on logits, divided by a temperature.

    Args:
        temperature: Temperature, positive.
        probs: Tensor of shape `(*, k)` of weights that are not negative. They are divided by their sum. Exactly one
            of `probs` and `logits` must be given.
        logits: Tensor of shape `(*, k)` of unnormalized log-probabilities.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributions.relaxed_categorical import ExpRelaxedCategorical
        >>> d = ExpRelaxedCategorical(torch.tensor(0.5), torch.ones(3))
        >>> d.sample().shape
        torch.Size([3])

    Source:
        Maddison, Mnih and Teh, "The Concrete Distribution", 2017.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True
    _expanded = {"_categorical": 0}
    _kept = ("temperature",)

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(torch.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        gumbels = -((-(u.log())).log())
        scores = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        k = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        log_scale = torch.full_like(self.temperature, float(k)).lgamma() + self.temperature.log().mul(k - 1)
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(OfBase, TransformedDistribution):
    """Continuous relaxation of a `OneHotCategorical`, whose samples are differentiable.

    At low temperatures, a sample is close to a vector with one 1.

    Args:
        temperature: Temperature, positive.
        probs: Tensor of shape `(*, k)` of weights that are not negative. They are divided by their sum. Exactly one
            of `probs` and `logits` must be given.
        logits: Tensor of shape `(*, k)` of unnormalized log-probabilities.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: Unless exactly one of `probs` and `logits` is given.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.RelaxedOneHotCategorical(torch.tensor(0.5), torch.ones(3))
        >>> d.rsample().sum().round()
        tensor(1.)

    Source:
        Jang, Gu and Poole, "Categorical Reparameterization with Gumbel-Softmax", 2017.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    _expanded: dict[str, int] = {}

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
