"""`torch.fx.passes.pass_manager`: functions that run one after the other. `passes.infra.pass_manager` has more."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from .infra.pass_manager import _topological_sort_passes, _validate_pass_schedule_constraint

logger = logging.getLogger(__name__)
_Pass = Callable[..., Any]

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]


def inplace_wrapper(fn: _Pass) -> _Pass:
    """Return a pass that returns its argument, from one that changes it."""

    @functools.wraps(fn)
    def wrapped_fn(gm: Any) -> Any:
        fn(gm)
        return gm

    return wrapped_fn


def log_hook(fn: _Pass, level: int = logging.INFO) -> _Pass:
    """Return a pass that logs its result, which is not the result of the pass that is wrapped but its argument."""

    @functools.wraps(fn)
    def wrapped_fn(gm: Any) -> Any:
        logger.log(level, "Ran pass %s\t Return value: %s", fn, fn(gm))
        return gm

    return wrapped_fn


def loop_pass(base_pass: _Pass, n_iter: int | None = None, predicate: Callable[[Any], bool] | None = None) -> _Pass:
    """Return a pass that runs another one `n_iter` times, or while `predicate` holds for its result."""
    if not (n_iter is not None) ^ (predicate is not None):
        raise AssertionError("Exactly one of `n_iter` or `predicate` must be specified.")

    @functools.wraps(base_pass)
    def new_pass(source: Any) -> Any:
        output = source
        if n_iter is not None:
            for _ in range(n_iter):
                output = base_pass(output)
        elif predicate is not None:
            while predicate(output):
                output = base_pass(output)
        return output

    return new_pass


def this_before_that_pass_constraint(this: _Pass, that: _Pass) -> Callable[[_Pass, _Pass], bool]:
    """Return the constraint that one pass is before another one."""
    return lambda a, b: a != that or b != this


def these_before_those_pass_constraint(these: _Pass, those: _Pass) -> Callable[[_Pass, _Pass], bool]:
    """Return the constraint that passes which wrap one function are before those which wrap another one."""
    return lambda a, b: inspect.unwrap(a) != those or inspect.unwrap(b) != these


class PassManager:
    """Functions from modules to modules, and constraints of their order.

    Args:
        passes: The functions.
        constraints: Functions of two passes that say whether the first may run before the second.
    """

    passes: list[_Pass]
    constraints: list[_Pass]
    _validated: bool = False

    def __init__(self, passes: list[_Pass] | None = None, constraints: list[_Pass] | None = None) -> None:
        self.passes, self.constraints = passes or [], constraints or []

    @classmethod
    def build_from_passlist(cls, passes: list[_Pass]) -> PassManager:
        """Return a manager without constraints."""
        return cls(passes)

    def add_pass(self, _pass: _Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: _Pass) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str] | None) -> None:
        """Remove the passes with these names."""
        if _passes is not None:
            self.passes = [each for each in self.passes if each.__name__ not in _passes]
            self._validated = False

    def replace_pass(self, _target: _Pass, _replacement: _Pass) -> None:
        """Replace the passes that have the name of another one."""
        self.passes = [_replacement if each.__name__ == _target.__name__ else each for each in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Raise `RuntimeError` if the order of the passes breaks a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
            self._validated = True

    def solve_constraints(self) -> None:
        """Sort the passes, so that they fulfil the constraints."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def __call__(self, source: Any) -> Any:
        """Run the passes."""
        self.validate()
        for each in self.passes:
            source = each(source)
        return source
