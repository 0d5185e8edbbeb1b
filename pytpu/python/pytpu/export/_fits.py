"""Comparison of captures at several sizes, and the expressions that fit their numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytpu as torch

from .. import _expressions, fx
from .._dynamo.exc import UserError, UserErrorType
from .._expressions import Expr
from ..utils import _pytree as pytree

if TYPE_CHECKING:
    from ._sizes import Plan
    from ._trace import Capture


def _first_difference(x: Capture, y: Capture) -> str | None:
    """Return where two captures have other operators, or ``None``."""
    left, right = list(x.graph.nodes), list(y.graph.nodes)
    for a, b in zip(left, right):
        if (a.op, a.name, a.target) != (b.op, b.name, b.target):
            return f"{_place(b)} calls {b.target} and not {a.target}"
        ours, spec = pytree.tree_flatten((list(a.args), dict(a.kwargs)))
        others, same = pytree.tree_flatten((list(b.args), dict(b.kwargs)))
        if spec != same:
            return f"{_place(b)} calls {b.target} with other arguments"
        for p, q in zip(ours, others):
            if isinstance(p, fx.Node) or isinstance(q, fx.Node):
                if getattr(p, "name", None) != getattr(q, "name", None):
                    return f"{_place(b)} calls {b.target} with other tensors"
            elif type(p) is not int and type(q) is not int and p != q and not (p != p and q != q):
                return f"{_place(b)} calls {b.target} with {q!r} and not {p!r}"
    if len(left) != len(right):
        return f"the program has {len(right)} operators and not {len(left)}"
    ours, others = x.results, y.results
    for p, q in zip(ours, others):
        if not isinstance(p, fx.Node) and not isinstance(q, fx.Node) and p != q:
            return f"the result has {q!r} and not {p!r}"
    if x.out_spec != y.out_spec:
        return "the result has another form"
    if getattr(x, "written", {}).keys() != getattr(y, "written", {}).keys():
        return "the program writes to other values"
    for name, inner in x.recorder.graphs.items():
        # Graphs that operators call get no sizes from outside.
        if str(inner.graph) != str(y.recorder.graphs[name].graph):
            return f"the graph {name} of torch.cond has other numbers"
    return None


def _place(node: fx.Node) -> str:
    lines = (node.meta.get("stack_trace") or "").strip().splitlines()
    return f"{lines[-2].strip()} ({lines[-1].strip()})" if len(lines) > 1 else "the program"


class _Size:
    """What a number of a graph is: an expression of the symbols, or a dimension of an earlier value.

    Attributes:
        expr: the expression, or ``None``.
        node: the earlier value.
        dim: its dimension.
        hint: the number in the example.
    """

    def __init__(self, hint: int, expr: Expr | None, node: fx.Node | None = None, dim: int = 0) -> None:
        self.hint, self.expr, self.node, self.dim = hint, expr, node, dim


class _Fits:
    """Fits the numbers of captures at several sizes."""

    def __init__(self, plan: Plan, names: list[str], points: list[dict[str, int]], captures: list[Capture]) -> None:
        self.plan, self.names, self.points = plan, names, points
        self.captures = captures
        self.shapes: dict[fx.Node, Any] = {}
        self.arguments: list[tuple[fx.Node, Any, Any]] = []
        # Where values of each size are in the graph: a node and a dimension for each sequence of sizes.
        self.known: dict[tuple[int, ...], tuple[fx.Node, int, Expr | None]] = {}
        self._polynomials: dict[tuple[int, ...], Expr | None] = {}

    def compare(self) -> None:
        """Fit all numbers that differ.

        Raises:
            UserError: One is no expression of the sizes.
        """
        rows = list(zip(*(list(found.graph.nodes) for found in self.captures)))
        for row in rows:
            node = row[0]
            if node.op == "call_function":
                self._arguments(node, row)
            if node.op in ("call_function", "placeholder"):
                self._shape(node, row)

    def _arguments(self, node: fx.Node, row: Sequence[fx.Node]) -> None:
        trees = [_paths(n.args, n.kwargs) for n in row]
        for path in trees[0]:
            values = tuple(tree[path] for tree in trees)
            if all(type(v) is int for v in values) and len(set(values)) > 1:
                self.arguments.append((node, path, self._size(values, node, row)))

    def _size(self, values: tuple[int, ...], node: fx.Node, row: Sequence[fx.Node]) -> _Size:
        expr = self._polynomial(values)
        if expr is not None:
            return _Size(values[0], expr)
        if values in self.known:
            found, dim, expr = self.known[values]
            return _Size(values[0], expr, found, dim)
        expr = self._divided(values, [self._of_points(name) for name in self.names])
        if expr is not None:
            return _Size(values[0], expr)
        shown = ", ".join(f"{v} for {p}" for v, p in zip(values[:4], self.points))
        raise UserError(
            UserErrorType.CONSTRAINT_VIOLATION,
            f"torch.export.export: a number in {node.target} at {_place(node)} is no expression of the sizes that may "
            f"change: {shown}. Name fewer of them in dynamic_shapes",
        )

    def _of_points(self, name: str) -> tuple[tuple[int, ...], Expr]:
        return tuple(point[name] for point in self.points), _expressions.symbol(name)

    def _polynomial(self, values: tuple[int, ...]) -> Expr | None:
        """Return the polynomial of products of distinct symbols that has these values, or ``None``."""
        if values not in self._polynomials:
            self._polynomials[values] = self._solved(values)
        return self._polynomials[values]

    def _solved(self, values: tuple[int, ...]) -> Expr | None:
        features: list[tuple[str, ...]] = [(), *((name,) for name in self.names)]
        features += list(itertools.combinations(self.names, 2))
        features = [f for f in features if len(f) < 2 or self._vary_together(f)]
        rows = [
            [Fraction(math.prod(point[name] for name in feature)) for feature in features] + [Fraction(value)]
            for point, value in zip(self.points, values)
        ]
        solution = _solve(rows, len(features))
        if solution is None:
            return None
        total = _expressions.constant(0)
        for feature, factor in zip(features, solution):
            product = _expressions.constant(factor)
            for name in feature:
                product = product * _expressions.symbol(name)
            total = total + product
        if any(Fraction(factor).denominator != 1 for factor in total.terms.values()):
            return None
        return total

    def _vary_together(self, feature: tuple[str, ...]) -> bool:
        hints = self.points[0]
        return any(all(point[name] != hints[name] for name in feature) for point in self.points)

    @staticmethod
    def _divided(values: tuple[int, ...], sources: Sequence[tuple[tuple[int, ...], Expr]]) -> Expr | None:
        """Return ``(a * source + b) // c`` with these values, or ``None``."""
        for sizes, expr in sources:
            if len(set(sizes)) < 3:
                continue
            for a, c in ((a, c) for c in range(1, 17) for a in (1, *range(2, 9)) if math.gcd(a, c) == 1):
                low = max(c * v - a * n for v, n in zip(values, sizes))
                high = min(c * v + c - 1 - a * n for v, n in zip(values, sizes))
                # The offset must be the only one, so that other sizes cannot differ.
                if low == high or (low <= high and {(a * n + low) % c for n in sizes} >= {0, c - 1}):
                    return (expr * a + low) // c
        return None

    def _shape(self, node: fx.Node, row: Sequence[fx.Node]) -> None:
        columns = [_tensors(n.meta.get("val")) for n in row]
        shapes = []
        differs = False
        for tensors in zip(*columns):
            sizes: list[Any] = []
            for dim in range(tensors[0].dim()):
                values = tuple(int(t.shape[dim]) for t in tensors)
                if len(set(values)) == 1:
                    sizes.append(values[0])
                    continue
                differs = True
                expr = self._expression(values, node, row)
                sizes.append(torch.SymInt(values[0], expr))
                if isinstance(node.meta.get("val"), torch.Tensor):
                    self.known.setdefault(values, (node, dim, expr))
            shapes.append(sizes)
        if differs:
            self.shapes[node] = shapes

    def _expression(self, values: tuple[int, ...], node: fx.Node, row: Sequence[fx.Node]) -> Expr:
        """Return the expression of a size of a result."""
        expr = self._polynomial(values)
        if expr is not None:
            return expr
        known = self.known[values][2] if values in self.known else None
        if known is not None:
            return known
        sources = [*self._sizes_of_inputs(node, row), *map(self._of_points, self.names)]
        expr = self._divided(values, sources) or self._product(values, sources)
        if expr is None:
            shown = ", ".join(f"{v} for {p}" for v, p in zip(values[:4], self.points))
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f"torch.export.export: a size of {node.target} at {_place(node)} is no expression of the sizes that "
                f"may change: {shown}. Name fewer of them in dynamic_shapes",
            )
        return expr

    def _sizes_of_inputs(self, node: fx.Node, row: Sequence[fx.Node]) -> list[tuple[tuple[int, ...], Expr]]:
        found: list[tuple[tuple[int, ...], Expr]] = []
        for used in zip(*(n.all_input_nodes for n in row)):
            shapes = self.shapes.get(used[0])
            if shapes is None:
                continue
            for k, tensors in enumerate(zip(*(_tensors(n.meta.get("val")) for n in used))):
                for dim, size in enumerate(shapes[k]):
                    if isinstance(size, torch.SymInt):
                        found.append((tuple(int(t.shape[dim]) for t in tensors), size.node.expr))
        return found

    @staticmethod
    def _product(values: tuple[int, ...], sources: Sequence[tuple[tuple[int, ...], Expr]]) -> Expr | None:
        """Return the product of sizes, times a number, with these values."""
        distinct = list({sizes: (sizes, expr) for sizes, expr in sources}.values())[:5]
        for count in range(1, len(distinct) + 1):
            for chosen in itertools.combinations(distinct, count):
                products = [math.prod(column) for column in zip(*(sizes for sizes, _ in chosen))]
                if any(not p for p in products):
                    continue
                factors = {Fraction(v, p) for v, p in zip(values, products)}
                if len(factors) == 1:
                    factor = factors.pop()
                    total = _expressions.constant(factor.numerator)
                    for _, expr in chosen:
                        total = total * expr
                    return total if factor.denominator == 1 else total // factor.denominator
        return None


def _solve(rows: list[list[Fraction]], count: int) -> list[Fraction] | None:
    """Return the solution of linear equations that hold all, or ``None``. Unknowns that are free are zero."""
    rows = [list(row) for row in rows]
    pivots: list[int] = []
    at = 0
    for column in range(count):
        pivot = next((i for i in range(at, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[at], rows[pivot] = rows[pivot], rows[at]
        head = rows[at][column]
        rows[at] = [value / head for value in rows[at]]
        for i in range(len(rows)):
            if i != at and rows[i][column]:
                factor = rows[i][column]
                rows[i] = [value - factor * own for value, own in zip(rows[i], rows[at])]
        pivots.append(column)
        at += 1
    if any(row[-1] for row in rows[at:]):
        return None
    solution = [Fraction(0)] * count
    for i, column in enumerate(pivots):
        solution[column] = rows[i][-1]
    return solution


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _paths(args: Any, kwargs: Any) -> dict[Any, Any]:
    return {
        (kind, *(getattr(key, "idx", getattr(key, "key", None)) for key in path)): leaf
        for kind, tree in (("args", list(args)), ("kwargs", dict(kwargs)))
        for path, leaf in pytree.tree_leaves_with_path(tree)
    }
