"""Transforms that lead to the set of a constraint.

`biject_to(constraint)` returns a bijection from the real numbers, whose Jacobian determinant is known.
`transform_to(constraint)` returns any map onto the set, which may suit an optimizer better.
"""

from __future__ import annotations

import numbers

from . import constraints, transforms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Registry of functions that make a transform for each class of constraints.

    Example:
        >>> import pytpu as torch
        >>> positive = torch.distributions.constraints.positive
        >>> torch.distributions.transform_to(positive)(torch.zeros(1))
        tensor([1.])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[..., Any]] = {}
        super().__init__()

    def register(
        self,
        constraint: constraints.Constraint | type[constraints.Constraint],
        factory: Callable[..., Any] | None = None,
    ) -> Callable[..., Any]:
        """Register the function that makes the transform of a constraint. Without `factory`, return a decorator.

        Args:
            constraint: A constraint, or a class of constraints.
            factory: Function of the constraint that returns a transform.

        Raises:
            TypeError: If `constraint` has another type.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: constraints.Constraint) -> transforms.Transform:
        """Return the transform of a constraint.

        Raises:
            NotImplementedError: If none is registered for its class.
        """
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints") from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _register(*kinds, registries=(biject_to, transform_to)):
    def decorator(factory):
        for registry in registries:
            for kind in kinds:
                registry.register(kind, factory)
        return factory

    return decorator


@_register(constraints.real)
def _to_real(constraint):
    return transforms.identity_transform


@_register(constraints.positive, constraints.nonnegative, constraints.greater_than, constraints.greater_than_eq)
def _to_greater_than(constraint):
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


@_register(constraints.less_than)
def _to_less_than(constraint):
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


@_register(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, numbers.Number) and low == 0 and isinstance(high, numbers.Number) and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@_register(constraints.corr_cholesky)
def _to_corr_cholesky(constraint):
    return transforms.CorrCholeskyTransform()


@_register(constraints.simplex, registries=(biject_to,))
def _bijection_to_simplex(constraint):
    return transforms.StickBreakingTransform()


@_register(constraints.simplex, registries=(transform_to,))
def _to_simplex(constraint):
    return transforms.SoftmaxTransform()


@_register(constraints.lower_cholesky, registries=(transform_to,))
def _to_lower_cholesky(constraint):
    return transforms.LowerCholeskyTransform()


@_register(constraints.positive_definite, constraints.positive_semidefinite, registries=(transform_to,))
def _to_positive_definite(constraint):
    return transforms.PositiveDefiniteTransform()


def _register_nested(registry):
    """Register transforms of constraints that are made of other constraints."""

    @registry.register(constraints.independent)
    def of_independent(constraint):
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def of_cat(constraint):
        return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def of_stack(constraint):
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


_register_nested(biject_to)
_register_nested(transform_to)
