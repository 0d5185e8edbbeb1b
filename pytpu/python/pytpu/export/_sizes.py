"""Sizes that may change: one program for all of them, from captures at several sizes.

Sizes are numbers here. The module runs once with the sizes of the example and several times with others. Each number
of the graph that differs between the runs must be an expression of the sizes that holds in all runs. A graph whose
operators differ is refused: the program asks for a size.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytpu as torch

from .. import _expressions, fx
from .._dynamo.exc import UserError, UserErrorType
from .._expressions import Expr, ValueRanges, int_oo
from .._subclasses.fake_tensor import FakeTensor, is_fake
from ..fx.experimental.symbolic_shapes import ConstraintViolationError
from ..utils import _pytree as pytree
from ._fits import _first_difference, _Fits, _tensors
from ._size_nodes import _SizeNodes
from .dynamic_shapes import Dim, _DerivedDim, _DimHint, _DimHintType

if TYPE_CHECKING:
    from ._trace import Capture

#: Sizes up to this are tried at the upper end of a range.
_LARGEST_TRIED = 512


class _Root:
    """A size that may change by itself.

    Attributes:
        symbol: its symbol.
        name: the name in errors: of the `Dim`, or of the dimension.
        hint: its value in the example.
        low: the least value.
        high: the greatest value.
        must_change: whether a program that fixes it is refused.
    """

    def __init__(self, symbol: Expr, name: str, hint: int, low: int, high: Any, must_change: bool) -> None:
        self.symbol, self.name, self.hint, self.low, self.high = symbol, name, hint, low, high
        self.must_change = must_change


def _specialized(root: _Root, value: int) -> str:
    return (
        f"You marked {root.name} as dynamic but your code specialized it to be a constant ({value}). If you're using "
        "mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either "
        "Dim.STATIC or Dim.AUTO."
    )


def _boundary(bad: int, good: int, is_same: Callable[[int], bool]) -> int:
    """Return the size nearest to `bad` for which the program is the same, found by halving."""
    while abs(bad - good) > 1:
        middle = (bad + good) // 2
        if is_same(middle):
            good = middle
        else:
            bad = middle
    return good


class Plan:
    """The sizes of the inputs that may change.

    Attributes:
        roots: the symbols.
        dims: the expression of each dimension that may change, by leaf and dimension.
        ranges: the range of each expression.
    """

    def __init__(self) -> None:
        self.roots: list[_Root] = []
        self.dims: dict[tuple[int, int], Expr] = {}
        self.ranges: dict[Expr, ValueRanges] = {}
        self._shapes: dict[fx.Node, Any] = {}
        self._arguments: list[tuple[fx.Node, Any, Any]] = []

    # ---- running

    def _points(self) -> list[dict[str, int]]:
        """Return the values of the symbols in each run. The first has those of the example."""
        hints = {str(root.symbol): root.hint for root in self.roots}
        points = [dict(hints)]
        others: dict[str, list[int]] = {}
        for i, root in enumerate(self.roots):
            values = [root.hint + step + i for step in (1, 2, 5, 11)] + [max(root.low, 2)]
            if root.high <= _LARGEST_TRIED:
                values.append(int(root.high))
            values += list(range(max(root.low, 2), root.hint))[-3:]
            fitting = [v for v in dict.fromkeys(values) if max(root.low, 2) <= v <= root.high and v != root.hint]
            others[str(root.symbol)] = fitting
            points += [{**hints, str(root.symbol): value} for value in fitting]
        for pair in itertools.combinations(others, 2):
            if all(others[name] for name in pair):
                points.append({**hints, **{name: others[name][0] for name in pair}})
        for at in (1, -1):
            joint = {name: values[at] if len(values) > 1 else hints[name] for name, values in others.items()}
            if joint != hints and joint not in points:
                points.append(joint)
        return points

    def run(self, leaves: Sequence[Any], capture: Callable[[Sequence[Any]], Capture]) -> Capture:
        """Capture at several sizes, and return the capture of the example with expressions for what differs.

        Raises:
            UserError: The program is another one for other sizes.
        """
        first = capture(leaves)
        if not self.roots:
            return first
        for root in list(self.roots):
            if root.hint in (0, 1):
                self._fixed(root, root.hint)
        runs = [(self._points()[0], first)]
        for point in self._points()[1:]:
            runs.append((point, self._captured(leaves, point, capture, runs[0])))
        if not self.roots:
            return first
        # Runs with another value of a size that was found to be fixed do not count.
        names = [str(root.symbol) for root in self.roots]
        hints = runs[0][0]
        kept = [
            (point, found)
            for point, found in runs
            if found is not None and all(point[name] == hints[name] for name in point if name not in names)
        ]
        fits = _Fits(self, names, [point for point, _ in kept], [found for _, found in kept])
        try:
            fits.compare()
        except UserError:
            if any(root.must_change for root in self.roots):
                raise
            for root in list(self.roots):
                self._fixed(root, root.hint)
            return first
        self._shapes, self._arguments = fits.shapes, fits.arguments
        return first

    def _captured(self, leaves: Sequence[Any], point: dict[str, int], capture: Any, first: Any) -> Any:
        symbols = {str(root.symbol) for root in self.roots}
        changed = {name: value for name, value in point.items() if value != first[0][name]}
        if not changed.keys() <= symbols:
            # A size that is fixed by now.
            return None
        found, text, error = self._tried(leaves, point, capture, first)
        if text is None:
            return found
        named = [root for root in self.roots if str(root.symbol) in changed]
        required = [root for root in named if root.must_change]
        if not required:
            for root in named:
                self._fixed(root, root.hint)
            return None
        limits = self._limits(required[0], leaves, capture, first) if len(changed) == 1 else None
        self._refuse(required, changed, text, limits, error)
        return None

    def _tried(self, leaves: Sequence[Any], point: Mapping[str, int], capture: Any, first: Any) -> Any:
        """Return the capture at other sizes, or what is wrong with it, and the error."""
        try:
            found = capture(self._resized(leaves, point))
        except UserError:
            raise
        except (RuntimeError, ValueError, IndexError, AssertionError, TypeError) as error:
            return None, f"{type(error).__name__}: {error}", error
        return found, _first_difference(first[1], found), None

    def _limits(self, root: _Root, leaves: Sequence[Any], capture: Any, first: Any) -> tuple[int, Any]:
        """Return the least and greatest size around the example for which the program is the same."""

        def is_same(value: int) -> bool:
            return self._tried(leaves, {**first[0], str(root.symbol): value}, capture, first)[1] is None

        low, high = max(root.low, 2), root.high
        if not is_same(root.hint + 1) and root.hint > low and not is_same(root.hint - 1):
            return root.hint, root.hint
        least, most = root.hint, root.hint
        if root.hint > low:
            least = low if is_same(low) else _boundary(low, root.hint, is_same)
        above = min(high, root.hint + _LARGEST_TRIED)
        if above > root.hint:
            most = above if is_same(int(above)) else _boundary(int(above), root.hint, is_same)
        return least, high if most == above else most

    def _refuse(
        self,
        roots: list[_Root],
        changed: dict[str, int],
        text: str,
        limits: tuple[int, Any] | None,
        error: Exception | None,
    ) -> None:
        """Raise the error of sizes that the program asks for."""
        names = ", ".join(root.name for root in roots)
        sizes = ", ".join(f"{root.name} = {changed[str(root.symbol)]}" for root in roots)
        hints = ", ".join(f"{root.name} = {root.hint}" for root in roots)
        about = f"with {sizes} instead of {hints}, {text}"
        head = f'Constraints violated ({names})! For more information, run with TORCH_LOGS="+dynamic".\n'
        fixes = "\n".join(f"  {root.name} = {root.hint}" for root in roots)
        root = roots[0]
        if limits is not None and limits[0] == limits[1]:
            line = f"{_specialized(root, root.hint)} ({about})"
        else:
            line = f"Not all values of {names} in the specified range give the same program: {about}"
            if limits is not None:
                least = [f"min={limits[0]}"] if limits[0] > max(root.low, 2) else []
                most = [f"max={limits[1]}"] if limits[1] < root.high else []
                fixes = f"  {root.name} = Dim({', '.join([repr(root.name), *least, *most])})"
        raise UserError(UserErrorType.CONSTRAINT_VIOLATION, f"{head}  - {line}\nSuggested fixes:\n{fixes}") from error

    def _resized(self, leaves: Sequence[Any], point: Mapping[str, int]) -> list[Any]:
        resized = []
        for i, leaf in enumerate(leaves):
            dims = {dim: expr for (at, dim), expr in self.dims.items() if at == i}
            if not dims or not isinstance(leaf, torch.Tensor):
                resized.append(leaf)
                continue
            sizes = [int(dims[d].evaluate(point)) if d in dims else n for d, n in enumerate(leaf.shape)]
            order = sorted(range(leaf.dim()), key=lambda d: (-leaf.stride(d), -leaf.shape[d]))
            strides, step = [0] * leaf.dim(), 1
            for d in reversed(order):
                strides[d] = step if leaf.stride(d) or leaf.shape[d] == 1 else 0
                step *= sizes[d] if strides[d] else 1
            made = torch.empty_strided(sizes, strides, dtype=leaf.dtype, device="meta")
            resized.append(torch._C._fake_of(made).to(leaf.device).requires_grad_(leaf.requires_grad))
        return resized

    def _fixed(self, root: _Root, value: int) -> None:
        """Make a size a number.

        Raises:
            UserError: It must change.
        """
        if root.must_change:
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f'Constraints violated ({root.name})! For more information, run with TORCH_LOGS="+dynamic".\n'
                f"  - {_specialized(root, value)}\nSuggested fixes:\n  {root.name} = {value}",
            )
        self.roots.remove(root)
        self.dims = {key: expr for key, expr in self.dims.items() if root.symbol not in expr.free_symbols}
        self.ranges = {expr: limits for expr, limits in self.ranges.items() if root.symbol not in expr.free_symbols}

    # ---- writing

    def write_sizes(self, graph: fx.Graph, inputs: Sequence[fx.Node]) -> None:
        """Give the nodes of a graph symbolic sizes, and nodes in place of numbers that change."""
        if not self.roots:
            return
        for (leaf, dim), expr in self.dims.items():
            node = inputs[leaf]
            value = node.meta["val"]
            sizes = list(value.shape)
            sizes[dim] = torch.SymInt(int(sizes[dim]), expr)
            _describe(value, sizes)
        for node, shapes in self._shapes.items():
            for value, sizes in zip(_tensors(node.meta.get("val")), shapes):
                _describe(value, sizes)
        writer = _SizeNodes(self, graph, inputs)
        for node, path, found in self._arguments:
            args, kwargs = _replaced(node.args, node.kwargs, path, writer.node_of(found, node))
            node.args, node.kwargs = args, kwargs


def _describe(value: torch.Tensor, sizes: list[Any]) -> None:
    """Give a fake tensor symbolic sizes, and the strides that follow."""
    if not isinstance(value, FakeTensor) and not is_fake(value):
        return
    hints = [int(s) for s in value.shape]
    strides: list[Any] = [0] * len(sizes)
    plain = [int(s) for s in value.stride()]
    order = sorted(range(len(sizes)), key=lambda d: (plain[d], hints[d], -d))
    step: Any = 1
    hint = 1
    for d in order:
        if plain[d] == hint:
            strides[d] = step
        else:
            strides[d] = plain[d]
            step, hint = plain[d], plain[d]
        step, hint = step * sizes[d], hint * hints[d]
    FakeTensor._describe(value, sizes, strides, value.storage_offset())  # type: ignore[arg-type]


def plan(
    leaves: Sequence[Any],
    specs: Sequence[Any],
    names: Sequence[str],
    in_spec: pytree.TreeSpec,
    parameters: Sequence[str],
) -> Plan:
    """Return the sizes that may change, from the specifications of the leaves.

    Raises:
        ConstraintViolationError: The example has other sizes than it says.
    """
    made = Plan()
    sources = _sources(in_spec, parameters)
    roots: dict[str, _Root] = {}
    taken: set[int] = set()
    # The symbol is named after the first size that it is, not after one that follows from it.
    places: dict[str, str] = {}
    for i, spec in enumerate(specs):
        for dim, size in spec.items() if isinstance(spec, dict) else ():
            if isinstance(size, Dim) and not isinstance(size, _DerivedDim):
                places.setdefault(size.__name__, f"L{sources[i]}.size()[{dim}]")
    for i, (leaf, spec) in enumerate(zip(leaves, specs)):
        if not isinstance(leaf, torch.Tensor):
            if (
                spec is not None
                and spec is not Dim.STATIC
                and not (isinstance(spec, _DimHint) and spec.type is _DimHintType.AUTO)
            ):
                if type(spec) is not int:
                    raise NotImplementedError(
                        f"torch.export.export: the number {names[i]} of the inputs cannot change: only sizes of "
                        "tensors can"
                    )
            continue
        for dim, size in (spec or {}).items():
            source = f"L{sources[i]}.size()[{dim}]"
            hint = leaf.shape[dim]
            if type(size) is int:
                if size != hint:
                    raise ConstraintViolationError(
                        f"Static shape constraint of {size} does not match input size of {hint}, for {source}"
                    )
                continue
            if isinstance(size, _DimHint):
                if size.type is _DimHintType.STATIC:
                    continue
                symbol = _expressions.symbol(_symbol_name(source, taken))
                must = size.type is _DimHintType.DYNAMIC
                low, high = size.min or (2 if hint > 1 else 0), int_oo if size.max is None else size.max
                _add(made, _Root(symbol, source, hint, low, high, must))
                made.dims[i, dim] = symbol
                continue
            base = size.root if isinstance(size, _DerivedDim) else size
            value = hint
            if isinstance(size, _DerivedDim):
                value, rest = divmod(hint - size.offset, size.factor)
                if rest:
                    raise UserError(
                        UserErrorType.CONSTRAINT_VIOLATION,
                        f"Expected shape[{dim}] = {hint} of input Tensor to be of the form {size.__name__}, where "
                        f"{base.__name__} is an integer",
                    )
            root = roots.get(base.__name__)
            if root is None:
                symbol = _expressions.symbol(_symbol_name(places.get(base.__name__, source), taken))
                if not base.min <= value <= base.max:
                    low = max(base.min, 2)
                    raise ConstraintViolationError(f"{value} not in range [{low}, {base.max}]")
                root = roots[base.__name__] = _Root(symbol, base.__name__, value, base.min, base.max, True)
                made.roots.append(root)
            elif root.hint != value:
                raise UserError(
                    UserErrorType.CONSTRAINT_VIOLATION,
                    f'Constraints violated ({base.__name__})! For more information, run with TORCH_LOGS="+dynamic".\n'
                    f"  - The values of {base.__name__} = {root.hint} and {source} = {hint} must always be equal.",
                )
            expr = root.symbol
            if isinstance(size, _DerivedDim):
                expr = root.symbol * size.factor + size.offset
            made.ranges.setdefault(expr, ValueRanges(size.min, size.max))
            made.dims[i, dim] = expr
    for root in made.roots:
        made.ranges.setdefault(root.symbol, ValueRanges(root.low, root.high))
    return made


def plan_of(program: Any, inputs: Sequence[fx.Node]) -> Plan:
    """Return the sizes of the inputs of a program that may change."""
    made = Plan()
    known: dict[str, _Root] = {}
    for i, node in enumerate(inputs):
        value = node.meta["val"]
        if isinstance(value, torch.SymInt):
            raise NotImplementedError(
                "a number among the inputs of the program may change, which is not supported here"
            )
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if not isinstance(size, torch.SymInt):
                continue
            made.dims[i, dim] = size.node.expr
            for symbol in size.node.expr.free_symbols:
                name = str(symbol)
                if name in known:
                    continue
                hint = _hint(size, name)
                limits = program.range_constraints.get(symbol, ValueRanges(0, int_oo))
                known[name] = _Root(symbol, name, hint, int(max(limits.lower, 0)), limits.upper, True)
    made.roots = list(known.values())
    made.ranges = dict(program.range_constraints)
    return made


def _hint(size: Any, name: str) -> int:
    """Return the value of the symbol of a size in the example."""
    from ._unlift import solve

    found = solve(size.node.expr, {}, size.node.hint)
    if found is None or found[0] != name or Fraction(found[1]).denominator != 1:
        raise NotImplementedError(f"the size {size} of an input is not understood")
    return int(found[1])


def _add(made: Plan, root: _Root) -> None:
    made.roots.append(root)
    made.ranges[root.symbol] = ValueRanges(root.low, root.high)


def _sources(in_spec: pytree.TreeSpec, parameters: Sequence[str]) -> list[str]:
    """Return the expressions of the leaves as PyTorch has them: ``['x']``."""
    found = []
    count = in_spec.child(0).num_children
    for path, _ in pytree.tree_leaves_with_path(in_spec.unflatten(range(in_spec.num_leaves))):
        name = parameters[path[1].idx] if path[0].idx == 0 and path[1].idx < count else str(getattr(path[1], "key", ""))
        found.append(f"[{name!r}]" + pytree.keystr(path[2:]))
    return found


def _symbol_name(source: str, taken: set[int]) -> str:
    """Return the name of a symbol, which follows from the place of the size."""
    number = int(hashlib.sha256(source.encode()).hexdigest(), 16) % 100
    while number in taken:
        number += 1
    taken.add(number)
    return f"s{number}"


def _replaced(args: Any, kwargs: Any, path: Any, value: Any) -> tuple[Any, Any]:
    def walk(tree: Any, rest: Sequence[Any]) -> Any:
        if not rest:
            return value
        if isinstance(tree, dict):
            return {**tree, rest[0]: walk(tree[rest[0]], rest[1:])}
        items = list(tree)
        items[rest[0]] = walk(items[rest[0]], rest[1:])
        return items if isinstance(tree, list) else tuple(items)

    if path[0] == "args":
        return walk(tuple(args), path[1:]), kwargs
    return args, walk(dict(kwargs), path[1:])
