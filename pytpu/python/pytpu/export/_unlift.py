"""The module of an exported program: weights are parameters and buffers again, and inputs are checked."""

from __future__ import annotations

import ast
import math
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytpu as torch

from .. import _expressions, fx
from ..fx.graph import _PyTreeCodeGen, _PyTreeInfo
from ..utils import _pytree as pytree
from .graph_signature import InputKind, OutputKind

if TYPE_CHECKING:
    from .exported_program import ExportedProgram

# ---- trees of arguments


def reorder_kwargs(kwargs: Mapping[str, Any], spec: pytree.TreeSpec) -> dict[str, Any]:
    """Return arguments by keyword in the order of the tree.

    Raises:
        ValueError: Their names are others.
    """
    names = spec.child(1).context
    if set(kwargs) != set(names):
        raise ValueError(
            f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {names}"
        )
    return {name: kwargs[name] for name in names}


def _is_same(x: pytree.TreeSpec, y: pytree.TreeSpec) -> bool:
    """Return whether two trees are the same but for the order of keys."""
    if x.type is not y.type or x.num_children != y.num_children:
        return False
    children = y.children()
    if x.type is dict:
        if set(x.context) != set(y.context):
            return False
        children = [children[y.context.index(key)] for key in x.context]
    elif x.context != y.context:
        return False
    return all(map(_is_same, x.children(), children))


def leaves_of(args: tuple[Any, ...], kwargs: Mapping[str, Any], spec: pytree.TreeSpec) -> list[tuple[Any, Any]]:
    """Return the leaves of the arguments with their paths.

    Raises:
        ValueError: The arguments have another tree.
    """
    found, received = pytree.tree_flatten_with_path((tuple(args), reorder_kwargs(kwargs, spec)))
    if received != spec and not _is_same(received, spec):
        raise ValueError(
            f"Trying to flatten user inputs with exported input tree spec: \n{spec}\nbut actually got inputs with tree "
            f"spec of: \n{received}.\nPlease check that the inputs have the same number and type of args and kwargs as "
            "the ones you used when tracing."
        )
    if received != spec:
        # The keys of a dict have another order.
        ordered = spec.flatten_up_to((tuple(args), reorder_kwargs(kwargs, spec)))
        paths = pytree.tree_leaves_with_path(spec.unflatten(range(spec.num_leaves)))
        return [(path, ordered[i]) for path, i in paths]
    return found


def _keystr(path: Sequence[Any]) -> str:
    """Return a path of a leaf as errors have it: ``*args[0]`` or ``name['key']``."""
    if path[0].idx == 0:
        return "*args" + pytree.keystr(path[1:])
    return pytree.keystr(path[2:]).join([str(path[1].key), ""]) if len(path) > 2 else f"'{path[1].key}'"


# ---- checks of sizes


def check_inputs(
    nodes: Sequence[fx.Node],
    leaves: Sequence[tuple[Any, Any]],
    ranges: Mapping[_expressions.Expr, _expressions.ValueRanges],
) -> None:
    """Check the leaves of inputs against the descriptions of the nodes.

    Raises:
        RuntimeError: If one does not fit.
    """
    if len(nodes) != len(leaves):
        raise RuntimeError(f"Unexpected number of inputs (expected {len(nodes)}, got {len(leaves)})")
    known: dict[str, int] = {}
    for (path, leaf), node in zip(leaves, nodes):
        described, where = node.meta.get("val"), _keystr(path)
        if isinstance(described, torch.Tensor):
            if not isinstance(leaf, torch.Tensor):
                raise RuntimeError(f"Expected input at {where} to be a tensor, but got {type(leaf)}")
            if described.dim() != leaf.dim():
                raise RuntimeError(
                    f"Unexpected number of dimensions in input at {where}.shape (expected {described.shape}, got "
                    f"{leaf.shape})"
                )
            for i, (size, expected) in enumerate(zip(leaf.shape, described.shape)):
                _check_size(expected, size, ranges, known, f"{where}.shape[{i}]")
        elif isinstance(described, torch.SymInt):
            _check_size(described, leaf, ranges, known, where)
        elif isinstance(described, (int, float, str)):
            same = type(leaf) is type(described) and (leaf == described or (leaf != leaf and described != described))
            if not same:
                raise RuntimeError(f"Expected input at {where} to be equal to {described}, but got {leaf}")


def _check_size(expected: Any, size: int, ranges: Mapping[Any, Any], known: dict[str, int], where: str) -> None:
    if not isinstance(expected, torch.SymInt):
        if size != expected:
            raise RuntimeError(
                f"Expected input at {where} to be equal to {expected}, but got {size}. If you meant for this dimension "
                "to be dynamic, please re-export and specify dynamic_shapes (e.g. with Dim.DYNAMIC)"
            )
        return
    expr = expected.node.expr
    symbols = {str(s) for s in expr.free_symbols}
    if symbols <= known.keys():
        value = expr.evaluate(known)
        if size != value:
            raise RuntimeError(f"Expected input at {where} to be equal to {value}, but got {size}")
    elif len(symbols - known.keys()) == 1:
        solved = solve(expr, known, size)
        if solved is not None:
            name, value = solved
            if value.denominator != 1 if hasattr(value, "denominator") else False:
                raise RuntimeError(
                    f"Expected input {where} = {size} to be of the form {expr}, where {name} is an integer"
                )
            known[name] = int(value)
    found = ranges.get(expr)
    if found is not None:
        # Sizes 0 and 1 are not told apart by programs that ask for at least 2.
        if found.lower > 2 and size < found.lower:
            raise RuntimeError(f"Expected input at {where} to be >= {found.lower}, but got {size}")
        if size > found.upper:
            raise RuntimeError(f"Expected input at {where} to be <= {found.upper}, but got {size}")


def solve(expr: _expressions.Expr, known: Mapping[str, int], size: int) -> tuple[str, Any] | None:
    """Return the symbol of a linear expression that is not known, and its value, if the expression has a size."""
    open_ = [s for s in expr.free_symbols if str(s) not in known]
    if len(open_) != 1:
        return None
    name = str(open_[0])
    from fractions import Fraction

    try:
        at_zero = Fraction(expr.evaluate({**known, name: 0}))
        slope = Fraction(expr.evaluate({**known, name: 1})) - at_zero
        is_linear = Fraction(expr.evaluate({**known, name: 7})) == at_zero + 7 * slope
    except (NotImplementedError, ZeroDivisionError):
        return None
    if not slope or not is_linear:
        return None
    return name, (size - at_zero) / slope


class GuardsFn(torch.nn.Module):
    """The checks of inputs that a program makes at each call."""

    # The node that calls the module has no users and must stay.
    _is_impure = True

    def __init__(self, conditions: list[tuple[Callable[[Sequence[Any]], bool], str]]) -> None:
        super().__init__()
        self._conditions = conditions

    def forward(self, *args: Any) -> None:
        """Raise ``AssertionError`` if a condition does not hold."""
        for holds, text in self._conditions:
            if not holds(args):
                raise AssertionError(f"Guard failed: {text}")


def _plain_text(expr: _expressions.Expr) -> str:
    """Return an expression with its constant first, as conditions have it."""
    constant = expr.terms.get((), 0)
    rest = expr - constant
    return str(rest) if not constant else f"{constant} + {rest}"


def _conditions(program: ExportedProgram) -> list[tuple[Callable[[Sequence[Any]], bool], str]]:
    signature = program.graph_signature
    names = {s.arg.name for s in signature.input_specs if s.kind == InputKind.USER_INPUT}
    nodes = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    sources = _sources(program)
    found: list[tuple[Callable[[Sequence[Any]], bool], str]] = []
    # Where each expression was seen first, and which expressions are left for the end.
    seen: dict[_expressions.Expr, tuple[int, int | None, str]] = {}
    later: list[tuple[int, int | None, str, _expressions.Expr]] = []

    def value(args: Sequence[Any], leaf: int, dim: int | None) -> Any:
        return args[leaf] if dim is None else args[leaf].size(dim)

    def is_equal(leaf: int, dim: int | None, expected: Any) -> Callable[[Sequence[Any]], bool]:
        return lambda args: bool(value(args, leaf, dim) == expected)

    def symbolic(size: torch.SymInt, leaf: int, dim: int | None, text: str) -> None:
        expr = size.node.expr
        later.append((leaf, dim, text, expr))
        if expr in seen:
            other, at, first = seen[expr]
            found.append((lambda args: value(args, leaf, dim) == value(args, other, at), f"{text} == {first}"))
            return
        seen[expr] = leaf, dim, text
        limits = program.range_constraints.get(expr)
        if limits is None:
            return
        if limits.lower > 2:
            least = limits.lower
            found.append((lambda args: value(args, leaf, dim) >= least, f"{text} >= {least}"))
        if limits.upper != math.inf:
            most = limits.upper
            found.append((lambda args: value(args, leaf, dim) <= most, f"{text} <= {most}"))

    for leaf, (node, source) in enumerate(zip(nodes, sources)):
        described = node.meta.get("val")
        if isinstance(described, torch.Tensor):
            for dim, size in enumerate(described.shape):
                text = f"{source}.size()[{dim}]"
                if isinstance(size, torch.SymInt):
                    symbolic(size, leaf, dim, text)
                else:
                    found.append((is_equal(leaf, dim, size), f"{text} == {size}"))
        elif isinstance(described, torch.SymInt):
            symbolic(described, leaf, None, source)
        elif isinstance(described, float) and math.isnan(described):
            found.append((lambda args, leaf=leaf: math.isnan(args[leaf]), f"math.isnan({source})"))
        elif isinstance(described, (int, float, str)):
            found.append((is_equal(leaf, None, described), f"{source} == {described!r}"))

    solved: dict[str, tuple[int, int | None, str, _expressions.Expr]] = {}
    for leaf, dim, text, expr in later:
        symbols = list(expr.free_symbols)
        if len(symbols) != 1 or symbols[0] in seen:
            continue
        name = str(symbols[0])
        if name not in solved:
            solved[name] = leaf, dim, text, expr
            continue
        other, at, first, root = solved[name]
        if (other, at) != (leaf, dim):
            found.append(_related(other, at, first, root, leaf, dim, text, expr, name))
    # PyTorch's own conditions stand first in its modules.
    written = [_parsed_condition(code, program, sources) for code in program._guards_code]
    return [*written, *found]


def _related(
    other: int,
    at: int | None,
    first: str,
    root: _expressions.Expr,
    leaf: int,
    dim: int | None,
    text: str,
    expr: _expressions.Expr,
    name: str,
) -> tuple[Callable[[Sequence[Any]], bool], str]:
    def holds(args: Sequence[Any]) -> bool:
        base = args[other] if at is None else args[other].size(at)
        size = args[leaf] if dim is None else args[leaf].size(dim)
        found = solve(root, {}, base)
        return found is None or expr.evaluate({name: found[1]}) == size

    inverse = solve(root, {}, 0)
    shown = f"{expr} == {text}"
    if inverse is not None:
        slope = _expressions.Fraction(1) / (solve(root, {}, 1)[1] - inverse[1])  # type: ignore[index]
        solution = (_expressions.symbol(first) - _expressions.constant(-inverse[1] * slope)) * (1 / slope)
        shown = f"{_plain_text(expr.subs({name: solution}))} == {text}"
    return holds, shown


def _sources(program: ExportedProgram) -> list[str]:
    """Return the Python expressions of the leaves of the inputs, such as ``d['a'][0]``."""
    entry = program.module_call_graph[0].signature
    assert entry is not None  # the first entry is the program
    spec, names = entry.in_spec, entry.forward_arg_names
    sources = []
    for path, _ in pytree.tree_leaves_with_path(spec.unflatten(range(spec.num_leaves))):
        if path[0].idx == 0:
            name = names[path[1].idx] if names and path[1].idx < len(names) else f"args_{path[1].idx}"
        else:
            name = str(path[1].key)
        sources.append(name + pytree.keystr(path[2:]))
    return sources


# ---- conditions of files

_BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Pow: lambda x, y: x**y if abs(y) < 64 and abs(x) < 2**64 else math.inf,
}
_COMPARE = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "Max": max,
    "Min": min,
    "max": max,
    "min": min,
    "Abs": abs,
    "abs": abs,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Eq": operator.eq,
    "Ne": operator.ne,
    "Not": operator.not_,
    "math.floor": math.floor,
    "math.ceil": math.ceil,
    "math.trunc": math.trunc,
    "math.isnan": math.isnan,
    "float": float,
    "int": int,
}


def _parsed_condition(
    code: str, program: ExportedProgram, sources: list[str]
) -> tuple[Callable[[Sequence[Any]], bool], str]:
    """Return a condition in the form of PyTorch, such as ``L['x'].size()[0] == 2``, as a function of the leaves.

    The code is walked through, not run.

    Raises:
        NotImplementedError: It has something else than arithmetic of sizes.
    """
    try:
        tree = ast.parse(code.strip(), mode="eval").body if len(code) < 20_000 else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None:
        raise NotImplementedError(f"the condition {code[:200]!r} of the program is no expression")
    places = {f"L[{_first_quoted(source)}": i for i, source in enumerate(sources)}
    shown = ast.unparse(tree)
    for source in sources:
        shown = shown.replace(f"L[{_first_quoted(source)}", source)

    def leaf_of(node: ast.expr) -> int | None:
        return places.get(ast.unparse(node))

    def compiled(node: ast.expr) -> Callable[[Sequence[Any]], Any]:
        at = leaf_of(node)
        if at is not None:
            return lambda args: args[at]
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, bool, str)):
            constant = node.value
            return lambda args: constant
        if isinstance(node, ast.BoolOp):
            parts = [compiled(v) for v in node.values]
            join = all if isinstance(node.op, ast.And) else any
            return lambda args: join(part(args) for part in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            inner, change = compiled(node.operand), operator.neg if isinstance(node.op, ast.USub) else operator.not_
            return lambda args: change(inner(args))
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            left, right, op = compiled(node.left), compiled(node.right), _BINARY[type(node.op)]
            return lambda args: op(left(args), right(args))
        if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
            values = [compiled(v) for v in (node.left, *node.comparators)]
            ops = [_COMPARE[type(op)] for op in node.ops]

            def compare(args: Sequence[Any]) -> bool:
                numbers = [v(args) for v in values]
                return all(op(x, y) for op, x, y in zip(ops, numbers, numbers[1:]))

            return compare
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            # x.size()[0] and x.stride()[0].
            method, index = node.value.func, node.slice
            if isinstance(method, ast.Attribute) and isinstance(index, ast.Constant) and type(index.value) is int:
                at, dim = leaf_of(method.value), index.value
                if at is not None and method.attr in ("size", "stride"):
                    name = method.attr
                    return lambda args: getattr(args[at], name)(dim)
        if isinstance(node, ast.Call) and not node.keywords:
            if isinstance(node.func, ast.Attribute) and node.func.attr == "storage_offset" and not node.args:
                at = leaf_of(node.func.value)
                if at is not None:
                    return lambda args: args[at].storage_offset()
            function = _CALLS.get(ast.unparse(node.func))
            if function is not None:
                operands = [compiled(arg) for arg in node.args]
                return lambda args: function(*(operand(args) for operand in operands))
        raise NotImplementedError(
            f"the condition {shown!r} of the program is not understood. module(check_guards=False) leaves conditions "
            "out"
        )

    return compiled(tree), shown


def _first_quoted(source: str) -> str:
    """Return ``'x'][0]`` for ``x[0]``."""
    name, bracket, rest = source.partition("[")
    return f"{name!r}]{bracket}{rest}"


# ---- the module


def _assign(module: torch.nn.Module, path: str, value: Any, spec: Any) -> None:
    *parents, last = path.split(".")
    for name in parents:
        if name not in module._modules:
            module.add_module(name, torch.nn.Module())
        module = module._modules[name]  # type: ignore[assignment]
    if hasattr(module, last):
        delattr(module, last)
    if isinstance(value, torch.nn.Parameter):
        module.register_parameter(last, value)
    elif spec.kind == InputKind.BUFFER:
        module.register_buffer(last, value, persistent=spec.persistent is not False)
    else:
        setattr(module, last, value)


def unlifted(program: ExportedProgram, check_guards: bool) -> fx.GraphModule:
    """Return the module of a program."""
    signature = program.graph_signature
    root = torch.nn.Module()
    graph = fx.Graph()
    copies: dict[fx.Node, Any] = {}
    names = [node for node in program.graph.nodes if node.op == "placeholder"]
    specs = dict(zip(names, signature.input_specs))
    weights = dict(zip([n for n in names if specs[n].kind != InputKind.USER_INPUT], program._weights()))
    # The user's inputs come first.
    for node in names:
        if specs[node].kind == InputKind.USER_INPUT:
            copies[node] = made = graph.placeholder(node.name)
            made.name = node.name
            made.meta = dict(node.meta)
    for node, value in weights.items():
        target = specs[node].target
        assert target is not None  # only inputs of the user have none
        _assign(root, target, value, specs[node])
        copies[node] = made = graph.get_attr(target)
        made.meta = dict(node.meta)
    if check_guards:
        conditions = _conditions(program)
        if conditions:
            root.add_module("_guards_fn", GuardsFn(conditions))
            inputs = tuple(copies[n] for n in names if specs[n].kind == InputKind.USER_INPUT)
            graph.create_node("call_module", "_guards_fn", inputs)
    for node in program.graph.nodes:
        if node.op == "get_attr":
            root.add_module(str(node.target), program.graph_module.get_submodule(str(node.target)))
        if node.op not in ("placeholder", "output"):
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    output = next(iter(reversed(program.graph.nodes)))
    results = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
    user = []
    by_input = {node.name: copies[node] for node in names if specs[node].kind == InputKind.USER_INPUT}
    by_target = {specs[node].target: copies[node] for node in names if specs[node].target is not None}
    for result, spec in zip(results, signature.output_specs):
        made = fx.node.map_arg(result, lambda n: copies[n])
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
            graph.call_function(torch.ops.aten.copy_.default, (by_target[spec.target], made))
        elif spec.kind == OutputKind.USER_INPUT_MUTATION:
            graph.call_function(torch.ops.aten.copy_.default, (by_input[spec.target], made))
        elif spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            user.append(made)
    graph.output(tuple(user))
    spec = program.call_spec
    assert spec.in_spec is not None
    graph._codegen = _PyTreeCodeGen(_PyTreeInfo(_argument_names(program), spec.in_spec, spec.out_spec))
    module = fx.GraphModule(root, graph)
    for node, value in weights.items():
        # `GraphModule` made buffers of all tensors.
        _assign(module, str(specs[node].target), value, specs[node])
    module.meta.update(program.graph_module.meta)
    module._in_spec, module._out_spec = spec.in_spec, spec.out_spec  # type: ignore[assignment]
    module.__dict__["range_constraints"] = program.range_constraints
    if check_guards:
        module.register_forward_pre_hook(_check_tree, with_kwargs=True)
    for name in ("train", "eval"):
        module.__dict__[name] = types.MethodType(_refuse(name), module)
    return module


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(self: Any, mode: bool = True) -> None:
        raise NotImplementedError(f"Calling {name}() is not supported yet.")

    return refuse


def _check_tree(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    spec = module._in_spec
    reordered = reorder_kwargs(kwargs, spec)
    leaves_of(args, reordered, spec)
    return args, reordered


def _argument_names(program: ExportedProgram) -> list[str]:
    entry = program.module_call_graph[0].signature
    assert entry is not None
    if entry.forward_arg_names:
        return list(entry.forward_arg_names)
    positional, by_name = entry.in_spec.children()
    return [*(f"arg_{i}" for i in range(positional.num_children)), *by_name.context]
