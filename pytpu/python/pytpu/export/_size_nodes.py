"""The nodes that compute sizes in the graph of a program."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytpu as torch

from .. import _expressions, fx
from .._expressions import Expr
from ._fits import _Size

if TYPE_CHECKING:
    from ._sizes import Plan


class _SizeNodes:
    """Adds the nodes that compute sizes."""

    def __init__(self, plan: Plan, graph: fx.Graph, inputs: Sequence[fx.Node]) -> None:
        self.plan, self.graph, self.inputs = plan, graph, inputs
        self.made: dict[Any, fx.Node] = {}
        self._hints = {str(root.symbol): root.hint for root in plan.roots}

    def node_of(self, size: _Size, user: fx.Node) -> fx.Node:
        """Return the node of a number that changes."""
        if size.node is not None:
            key = size.node, size.dim
            if key not in self.made:
                self.made[key] = self._read(size.node, size.dim, size.hint, size.expr)
            return self.made[key]
        assert size.expr is not None  # it is one or the other
        return self._expression(size.expr)

    def _read(self, node: fx.Node, dim: int, hint: int, expr: Expr | None) -> fx.Node:
        after = node
        if node.op == "placeholder":
            after = [n for n in self.graph.nodes if n.op == "placeholder"][-1]
        with self.graph.inserting_after(after):
            made = self.graph.create_node(
                "call_function", torch.ops.aten.sym_size.int, (node, dim), name="sym_size_int"
            )
        made.meta["val"] = torch.SymInt(hint, expr) if expr is not None else hint
        made.meta["_modes"] = None
        return made

    def _expression(self, expr: Expr) -> fx.Node:
        if expr in self.made:
            return self.made[expr]
        hint = int(expr.evaluate(self._hints))
        # A dimension of an input that is the size.
        for (leaf, dim), found in self.plan.dims.items():
            if found == expr:
                self.made[expr] = self._read(self.inputs[leaf], dim, hint, expr)
                return self.made[expr]
        self.made[expr] = node = self._computed(expr)
        return node

    def _call(self, function: Any, x: Any, y: Any) -> fx.Node:
        operands = [v for v in (x, y) if isinstance(v, fx.Node)]
        last = max(operands)
        # All placeholders come first.
        if last.op == "placeholder":
            raise AssertionError("a size is read from a placeholder by a node")
        with self.graph.inserting_after(last):
            made = self.graph.call_function(function, (x, y))
        values = [v.meta["val"] if isinstance(v, fx.Node) else v for v in (x, y)]
        made.meta["val"] = function(*values)
        made.meta["_modes"] = None
        return made

    def _symbol(self, name: str) -> fx.Node:
        symbol = _expressions.symbol(name)
        if symbol in self.made:
            return self.made[symbol]
        if symbol in self.plan.dims.values():
            return self._expression(symbol)
        # The symbol is part of the size of an input only: x = factor * symbol + offset.
        for found in self.plan.dims.values():
            if found.free_symbols == {symbol}:
                offset = found.terms.get((), 0)
                factor = next(value for key, value in found.terms.items() if key)
                node = self._expression(found)
                if offset:
                    node = self._call(operator.sub, node, int(offset))
                if factor != 1:
                    node = self._call(operator.floordiv, node, int(factor))
                self.made[symbol] = node
                return node
        raise AssertionError(f"the symbol {name} is the size of no input")

    def _computed(self, expr: Expr) -> fx.Node:
        total: Any = None
        for monomial, factor in expr._ordered():
            term: Any = None
            for atom in monomial:
                if atom.args is None:
                    part = self._symbol(atom.name)
                else:
                    x, y = (self._expression(a) if not a.is_constant else int(a.value) for a in atom.args)
                    function = operator.floordiv if atom.name == "FloorDiv" else operator.mod
                    part = self._call(function, x, y)
                term = part if term is None else self._call(operator.mul, term, part)
            if term is None:
                term = int(factor)
            elif factor != 1:
                term = self._call(operator.mul, term, int(factor))
            if total is None:
                total = term
            elif type(term) is int and term < 0:
                total = self._call(operator.sub, total, -term)
            else:
                total = self._call(operator.add, total, term)
        return total
