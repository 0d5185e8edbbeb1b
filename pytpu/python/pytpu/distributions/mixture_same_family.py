"""The distribution `MixtureSameFamily`."""

from __future__ import annotations

import pytpu as torch

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from pytpu import Tensor

    from .constraints import Constraint


__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Mixture of distributions of the same family.

    Args:
        mixture_distribution: A `Categorical` that draws the component.
        component_distribution: The components, along its last batch dimension.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If the numbers of components, or the batches, do not fit.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> weights = torch.distributions.Categorical(torch.tensor([1.0, 3.0]))
        >>> parts = torch.distributions.Normal(torch.tensor([0.0, 4.0]), torch.ones(2))
        >>> d = torch.distributions.MixtureSameFamily(weights, parts)
        >>> d.mean
        tensor(3.)
    """

    arg_constraints = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        mixtures = mixture_distribution.batch_shape
        batch_shape = component_distribution.batch_shape[:-1]
        for m, c in zip(reversed(mixtures), reversed(batch_shape), strict=False):
            if m != 1 and c != 1 and m != c:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixtures}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch_shape})"
                )
        weights = mixture_distribution.logits.shape[-1]
        components = component_distribution.batch_shape[-1]
        if weights != components:
            raise ValueError(
                f"`mixture_distribution component` ({weights}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = weights
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = torch.Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """Distribution that draws the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _pad(self, x):
        """Return a value with a dimension for the components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x):
        """A tensor over components, with ones for batch dimensions that the mixture lacks, and for the event."""
        more = len(self.batch_shape) - len(self._mixture_distribution.batch_shape)
        shape = x.shape[:-1] + (1,) * more + x.shape[-1:] + (1,) * self._event_ndims
        return x.reshape(shape)

    def _mix(self, x):
        """Return the mean over the components."""
        weights = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return torch.sum(weights * x, dim=-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._mix(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        # The variance within components, and the variance of their means.
        means = self.component_distribution.mean
        return self._mix(self.component_distribution.variance) + self._mix((means - self._pad(self._mix(means))).pow(2))

    def cdf(self, x: Tensor) -> Tensor:
        cdf = self.component_distribution.cdf(self._pad(x))
        return torch.sum(cdf * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        log_probs = self.component_distribution.log_prob(self._pad(value))
        weights = torch.log_softmax(self.mixture_distribution.logits, dim=-1)
        return torch.logsumexp(log_probs + weights, dim=-1)

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        with torch.no_grad():
            mixture = self.mixture_distribution
            if mixture.batch_shape != self.batch_shape:
                mixture = mixture.expand(self.batch_shape)
            which = mixture.sample(sample_shape)
            values = self.component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            event = self.event_shape
            which = which.reshape(which.shape + (1,) * (len(event) + 1))
            index = which.expand(values.shape[:dim] + (1,) + event)
            return torch.gather(values, dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
