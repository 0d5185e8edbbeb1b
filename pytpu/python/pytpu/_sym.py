"""Symbolic numbers.

Sizes of tensors are plain ints here, except in programs of `torch.export`, whose descriptions name the sizes that may
change.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from . import _expressions
from ._absent import absent_class


class SymFloat:
    """A symbolic float: there are none."""

    def __init__(self, *args: Any) -> None:
        raise NotImplementedError("torch.SymFloat: only sizes are symbols here")


class SymBool:
    """A symbolic truth value: there are none."""

    def __init__(self, *args: Any) -> None:
        raise NotImplementedError("torch.SymBool: only sizes are symbols here")


ScriptObject = absent_class("torch.ScriptObject", "TorchScript is not there")


class SymNode:
    """What a symbolic number stands for.

    Attributes:
        expr: the expression.
        hint: the value in the example that a program was made from.
    """

    def __init__(self, expr: _expressions.Expr, hint: int) -> None:
        self.expr, self.hint = expr, hint

    def __repr__(self) -> str:
        return str(self.expr)


class SymInt(int):
    """A size that may change: the int of the example, and an expression such as `2*s77 + 1`.

    It is an int of the example's value wherever it is used. Sums, products, `//` and `%` have an expression too.
    Comparisons compare the values of the example.

    Args:
        hint: the value in the example.
        expr: the expression.
    """

    node: SymNode

    def __new__(cls, hint: int, expr: _expressions.Expr) -> SymInt:
        made = int.__new__(cls, hint)
        made.node = SymNode(expr, int(hint))
        return made

    def __repr__(self) -> str:
        return str(self.node.expr)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> Any:
        return _make, (int(self), self.node.expr.srepr())


def _make(hint: int, text: str) -> SymInt:
    return SymInt(hint, _expressions.parse(text))


def _operators(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    op = getattr(operator, name)

    def forward(self: SymInt, other: Any) -> Any:
        value = getattr(int, f"__{name}__")(self, other)
        if value is NotImplemented or type(other) not in (int, SymInt):
            return value
        return SymInt(value, op(self.node.expr, _expressions.of(other)))

    def reflected(self: SymInt, other: Any) -> Any:
        value = getattr(int, f"__r{name}__")(self, other)
        if value is NotImplemented or type(other) not in (int, SymInt):
            return value
        return SymInt(value, op(_expressions.of(other), self.node.expr))

    return forward, reflected


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    _forward, _reflected = _operators(_name)
    setattr(SymInt, f"__{_name}__", _forward)
    setattr(SymInt, f"__r{_name}__", _reflected)
SymInt.__neg__ = lambda self: SymInt(-int(self), -self.node.expr)  # type: ignore[assignment,method-assign]
for _class in (SymInt, SymFloat, SymBool):
    _class.__module__ = "torch"
