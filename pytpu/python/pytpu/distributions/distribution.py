"""`Distribution`, the base class of all distributions."""

from __future__ import annotations

import warnings
from typing import Any

import pytpu as torch

from . import constraints
from .utils import lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

    from pytpu import Tensor

    from .constraints import Constraint


__all__ = ["Distribution"]


class Distribution:
    """Base class of distributions.

    `batch_shape` is the shape of independent distributions with different parameters, and `event_shape` is the shape of
    one sample. `sample` returns shape `sample_shape + batch_shape + event_shape`, and `log_prob` returns `sample_shape
    + batch_shape`.

    A subclass defines `arg_constraints`, with a constraint for each parameter, and `support`. They are checked unless
    `validate_args=False`.

    Args:
        batch_shape: Shape of the batch.
        event_shape: Shape of one sample.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
        >>> d.batch_shape, d.event_shape, d.sample((2,)).shape
        (torch.Size([3]), torch.Size([]), torch.Size([2, 3]))
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validate_args: bool = __debug__
    _batch_shape: Any
    _event_shape: Any

    # For `expand`: parameters with the number of their dimensions that belong to an event, such as `{"loc": 0}`, and
    # the names of other attributes, which are copied.
    _expanded: dict[str, int]
    _kept: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check their parameters and values by default.

        Args:
            value: If `True`, check them.

        Raises:
            ValueError: If `value` is not a `bool`.
        """
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = torch.Size(),
        event_shape: Sequence[int] = torch.Size(),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _validate_parameters(self):
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            raise
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # it follows from another one, which is checked
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """Return the distribution with its batch expanded to `batch_shape`, without copies of the parameters.

        Args:
            batch_shape: New shape of the batch.
            _instance: New object, for subclasses that extend this method.

        Raises:
            NotImplementedError: If a subclass has an `__init__` of its own, and no `expand`.
        """
        owner: Any = next((c for c in type(self).__mro__ if "_expanded" in vars(c)), None)
        if owner is None:
            raise NotImplementedError
        new = self._get_checked_instance(owner, _instance)
        batch_shape = torch.Size(batch_shape)
        for name, event_dim in owner._expanded.items():
            value = self.__dict__.get(name)
            if isinstance(value, Distribution):
                new.__dict__[name] = value.expand(batch_shape)
            elif value is not None:
                new.__dict__[name] = value.expand(batch_shape + value.shape[value.dim() - event_dim :])
        for name in owner._kept:
            new.__dict__[name] = self.__dict__[name]
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls, _instance=None):
        """Return an empty object for `expand` to fill. `cls` is the class that defines `expand`."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a "
                "custom .expand() method."
            )
        return self.__new__(type(self))

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one sample."""
        return self._event_shape

    @property
    def arg_constraints(self) -> Mapping[str, Constraint]:
        """Constraint of each parameter, by name."""
        raise NotImplementedError

    @property
    def support(self) -> Constraint:
        """Constraint of the values."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """Mean, of shape `batch_shape + event_shape`."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Value of the largest density or probability."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """Variance, of shape `batch_shape + event_shape`."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """Standard deviation, of shape `batch_shape + event_shape`."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        """Draw samples, without a gradient.

        Args:
            sample_shape: Shape of the samples.

        Returns:
            A tensor of shape `sample_shape + batch_shape + event_shape`.
        """
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        """Draw samples that are differentiable in the parameters.

        Args:
            sample_shape: Shape of the samples.

        Returns:
            A tensor of shape `sample_shape + batch_shape + event_shape`.

        Raises:
            NotImplementedError: If the distribution has no such samples. `has_rsample` says so.
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Draw `n` samples. Deprecated: use `sample((n,))`."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(torch.Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density, or of the probability, at a value.

        Args:
            value: Tensor that broadcasts with `batch_shape + event_shape`.

        Returns:
            A tensor of the broadcast shape without the dimensions of the event.

        Raises:
            ValueError: If `value` has a wrong shape, or is outside of the support.
        """
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of samples up to a value.

        Args:
            value: Tensor that broadcasts with `batch_shape`.
        """
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of `cdf`.

        Args:
            value: Tensor of probabilities that broadcasts with `batch_shape`.
        """
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution, along a new dimension 0.

        Args:
            expand: If `False`, the dimensions of the batch have size 1.

        Raises:
            NotImplementedError: If the distribution has no finite list of values. `has_enumerate_support` says so.
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy, of shape `batch_shape`."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape=torch.Size()):
        """Return the shape of a sample."""
        if not isinstance(sample_shape, torch.Size):
            sample_shape = torch.Size(sample_shape)
        return torch.Size(sample_shape + self._batch_shape + self._event_shape)

    def _validate_sample(self, value):
        """Raise `ValueError` if a value has a wrong shape, or is outside of the support."""
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event_start = len(value.shape) - len(self._event_shape)
        if value.shape[event_start:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {torch.Size(expected)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution "
                "with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if support is None:
            raise AssertionError("support must not be None")
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                "support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        values = [(name, self.__dict__[name]) for name in names]
        shown = ", ".join(f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in values)
        return f"{type(self).__name__}({shown})"
