"""`torch.fx.passes.infra.pass_manager`: passes in order."""

from __future__ import annotations

import collections
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from ....nn import Module
from ..._compatibility import compatibility
from ...graph_module import GraphModule
from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

logger = logging.getLogger(__name__)
_Pass = Callable[..., Any]
_Constraint = Callable[[_Pass, _Pass], bool]


@compatibility(is_backward_compatible=False)
def pass_result_wrapper(fn: _Pass) -> Any:
    """Return a pass that returns a `PassResult`, from one that returns a module or nothing."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped_fn(gm: Module) -> PassResult | None:
        result = fn(gm)
        if result is None or isinstance(result, Module):
            return PassResult(gm if result is None else result, True)
        return result if isinstance(result, PassResult) else None

    if not inspect.isfunction(fn):
        wrapped_fn.__name__ = type(fn).__name__
    return wrapped_fn


@compatibility(is_backward_compatible=False)
def this_before_that_pass_constraint(this: _Pass, that: _Pass) -> _Constraint:
    """Return the constraint that one pass is before another one."""
    return lambda a, b: a != that or b != this


def _validate_pass_schedule_constraint(constraint: _Constraint, passes: list[_Pass]) -> None:
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b} but found {a} at index {i} and {b} "
                    f"at index {j} in pass list."
                )


def _topological_sort_passes(passes: list[_Pass], constraints: list[_Constraint]) -> list[_Pass]:
    if not constraints:
        return passes
    after: dict[_Pass, list[_Pass]] = {p: [] for p in passes}
    waits = dict.fromkeys(passes, 0)
    for a in passes:
        for b in passes:
            # A pair in this order that is refused must be in the other order.
            refusals = 0 if a == b else sum(not constraint(a, b) for constraint in constraints)
            after[b] += [a] * refusals
            waits[a] += refusals
    ready = collections.deque(p for p in passes if not waits[p])
    ordered = []
    while ready:
        done = ready.popleft()
        ordered.append(done)
        for p in after[done]:
            waits[p] -= 1
            if not waits[p]:
                ready.append(p)
    circular = [p for p, count in waits.items() if count]
    if circular:
        raise RuntimeError(f"Circular dependency detected within the following passes: {circular}")
    return ordered


def _name(fn: _Pass) -> str:
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__


@compatibility(is_backward_compatible=False)
class PassManager:
    """Passes that run in an order which fulfils constraints.

    Args:
        passes: Functions of a module that return a `PassResult`.
        constraints: Functions of two passes that say whether the first may run before the second.
        steps: How often the passes run, unless nothing changes any more.
        run_checks_after_each_pass: Call the check after each pass.
        suppress_check_failures: Kept for callers. Failures are raised.
    """

    passes: list[_Pass]
    constraints: list[_Constraint]
    _validated: bool = False
    steps: int = 1

    def __init__(
        self,
        passes: list[_Pass] | None = None,
        constraints: list[_Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes, self.constraints = passes or [], constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: _Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: _Constraint) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raise `RuntimeError` if the order of the passes breaks a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
            self._validated = True

    def solve_constraints(self) -> None:
        """Sort the passes, so that they fulfil the constraints."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Any], None]) -> None:
        """Set the function that checks a module before the first pass, and after each one on request."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[method-assign,assignment]

    def check(self, module: Any) -> None:
        """Check a module: everything is right."""

    def __call__(self, module: Any) -> PassResult:
        """Run the passes."""
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        is_modified = False
        for _ in range(self.steps):
            is_modified_now = False
            for i, fn in enumerate(self.passes):
                logger.debug("Running pass '%s'", _name(fn))
                try:
                    result = fn(module)
                    if not hasattr(result, "graph_module"):
                        raise TypeError(
                            f"The result of the pass {_name(fn)} should be type PassResult."
                            "Please wrap it with pass_result_wrapper()"
                        )
                    module = result.graph_module
                    is_modified_now = is_modified_now or result.modified
                    if isinstance(module, GraphModule):
                        module.recompile()
                    if self.run_checks_after_each_pass:
                        self.check(module)
                except Exception as error:
                    before = [_name(p) for p in self.passes[:i]]
                    raise Exception(
                        f"An error occurred when running the '{_name(fn)}' pass after the following passes: {before}"
                    ) from error
            is_modified = is_modified or is_modified_now
            if not is_modified_now:
                break
        return PassResult(module, is_modified)
