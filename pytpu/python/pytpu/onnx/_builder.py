"""The nodes of a model of ONNX, and the table of rules that write operators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytpu as torch

from .. import _archive, fx
from ..export import ExportedProgram
from ..export.graph_signature import ConstantArgument, InputKind, OutputKind
from . import OnnxExporterError, _onnx

_DTYPES = {
    torch.float32: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.uint16: 4,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float16: 10,
    torch.float64: 11,
    torch.uint32: 12,
    torch.uint64: 13,
    torch.bfloat16: 16,
}
_LAST = 9223372036854775807


def _dtype(dtype: torch.dtype) -> int:
    if dtype not in _DTYPES:
        raise OnnxExporterError(f"tensors of {dtype} are not written to ONNX")
    return _DTYPES[dtype]


class Builder:
    """Writes the nodes of one model.

    Args:
        program: the program, with functional operators.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self.helper = _onnx().helper
        self.program = program
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.names: dict[Any, Any] = {}
        self._constants: dict[Any, str] = {}
        self._taken: set[str] = set()
        self._count = 0

    def _fresh(self, name: str) -> str:
        """Return a name that no other value has."""
        found, n = name, 0
        while found in self._taken:
            n += 1
            found = f"{name}__{n}"
        self._taken.add(found)
        return found

    # ---- values

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node, and return the name of its result, or the names."""
        self._count += 1
        results = [self._fresh(f"{kind.lower()}_{self._count}") for _ in range(outputs)]
        self.nodes.append(self.helper.make_node(kind, list(inputs), results, name=f"node_{self._count}", **attributes))
        return results[0] if outputs == 1 else results

    def tensor(self, value: torch.Tensor, name: str) -> str:
        """Add a tensor of known values."""
        name = self._fresh(name)
        host = value.detach().cpu().contiguous()
        data = _archive.memory_of(host.view(-1)) if host.numel() else b""
        made = self.helper.make_tensor(name, _dtype(value.dtype), list(host.shape), bytes(data), raw=True)
        self.initializers.append(made)
        return name

    def constant(self, value: Any, dtype: torch.dtype) -> str:
        """Return a number, or a list of numbers, as a value of the model."""
        key = (str(value), dtype)
        if key not in self._constants:
            made = torch.tensor(value, dtype=dtype)
            self._constants[key] = self.tensor(made, f"constant_{len(self._constants)}")
        return self._constants[key]

    def ints(self, values: Sequence[Any]) -> str:
        """Return sizes as a value: numbers, and nodes of numbers."""
        if all(type(v) is int for v in values):
            return self.constant(list(values), torch.int64)
        parts = [self.constant([v], torch.int64) if type(v) is int else self.vector(self.names[v]) for v in values]
        return self.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def vector(self, scalar: str) -> str:
        """Return a number as a list of one."""
        return self.op("Reshape", scalar, self.constant([1], torch.int64))

    def get(self, value: Any, dtype: torch.dtype | None = None) -> str:
        """Return the name of an argument, converted to a dtype."""
        if isinstance(value, fx.Node):
            described = value.meta.get("val")
            found = self.names[value]
            own = described.dtype if isinstance(described, torch.Tensor) else torch.int64
            return found if dtype is None or dtype == own else self.op("Cast", found, to=_dtype(dtype))
        if dtype is None:
            dtype = {bool: torch.bool, int: torch.int64}.get(type(value), torch.float32)
        return self.constant(value, dtype)

    # ---- the model

    def model(self, input_names: Sequence[str], output_names: Sequence[str], opset: int) -> Any:
        """Return the model."""
        onnx = _onnx()
        signature = self.program.graph_signature
        placeholders = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        output: Any = next(iter(reversed(self.program.graph.nodes)))
        read = [
            (node, spec)
            for node, spec in zip(placeholders, signature.input_specs)
            if spec.kind == InputKind.USER_INPUT and not isinstance(spec.arg, ConstantArgument)
        ]
        results = []
        for result, spec in zip(output.args[0], signature.output_specs):
            if spec.kind == OutputKind.USER_INPUT_MUTATION:
                raise OnnxExporterError("a write to an input is not written to ONNX")
            # New values of buffers are no results of a model.
            if spec.kind == OutputKind.USER_OUTPUT and isinstance(result, fx.Node):
                results.append(result)
        for what, names, values in (("inputs", input_names, read), ("results", output_names, results)):
            if len(names) > len(values):
                raise ValueError(f"{len(names)} names for {len(values)} {what}")
        named = [*input_names, *output_names]
        if len(set(named)) < len(named):
            raise ValueError("two inputs or results have one name")
        self._taken.update(named)

        inputs, outputs, given = [], [], iter(input_names)
        for node, _ in read:
            self.names[node] = name = next(given, "") or self._fresh(node.name)
            inputs.append(self._info(name, node.meta["val"]))
        given = iter(output_names)
        goals = [next(given, "") or self._fresh(result.name) for result in results]
        weights = iter(self.program._weights())
        for node, spec in zip(placeholders, signature.input_specs):
            if spec.kind != InputKind.USER_INPUT:
                value = next(weights)
                if node.users:
                    self.names[node] = self.tensor(value, str(spec.target))
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self._node(node)
        for name, result in zip(goals, results):
            self.nodes.append(self.helper.make_node("Identity", [self.names[result]], [name]))
            outputs.append(self._info(name, result.meta["val"]))
        used = {name for node in self.nodes for name in node.input}
        kept = [value for value in self.initializers if value.name in used]
        graph = self.helper.make_graph(self.nodes, "main_graph", inputs, outputs, initializer=kept)
        made = self.helper.make_model(
            graph, opset_imports=[self.helper.make_opsetid("", opset)], producer_name="pytpu", ir_version=10
        )
        if made.ByteSize() >= 1 << 31:
            raise OnnxExporterError("models of 2 GiB and more are not written to ONNX")
        onnx.checker.check_model(made)
        return made

    def _info(self, name: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return self.helper.make_tensor_value_info(name, _dtype(torch.int64), [])
        sizes = [str(n).replace(" ", "") if isinstance(n, torch.SymInt) else int(n) for n in value.shape]
        return self.helper.make_tensor_value_info(name, _dtype(value.dtype), sizes)

    def _node(self, node: fx.Node) -> None:
        target: Any = node.target
        if target is operator.getitem:
            self.names[node] = self.names[node.args[0]][node.args[1]]
            return
        if target is operator.floordiv:
            x, y = (self.get(a, torch.int64) for a in node.args)
            # ONNX divides ints toward zero.
            self.names[node] = self.op("Div", self.op("Sub", x, self.op("Mod", x, y)), y)
            return
        if target in _INTS:
            self.names[node] = self.op(_INTS[target], *(self.get(a, torch.int64) for a in node.args))
            return
        name = str(target).removeprefix("aten.")
        rule = _rule_of(target)
        if rule is None:
            raise OnnxExporterError(f"the operator {target} is not written to ONNX")
        args = list(node.args)
        try:
            schema = target._schema.arguments
        except AttributeError:
            schema = []
        values = {argument.name: argument.default_value for argument in schema}
        values.update({argument.name: value for argument, value in zip(schema, args)})
        values.update(node.kwargs)
        refused = _VALUES.get(name.partition(".")[0], {})
        for key, allowed in refused.items():
            if values.get(key) not in allowed:
                raise OnnxExporterError(f"{target} with {key}={values[key]} is not written to ONNX")
        self.names[node] = rule(self, node, _Arguments(values, args))


_INTS = {operator.add: "Add", operator.sub: "Sub", operator.mul: "Mul", operator.mod: "Mod"}

#: Arguments that are written only where they have one of these values.
_VALUES: dict[str, dict[str, tuple[Any, ...]]] = {
    "round": {"decimals": (None, 0)},
    "elu": {"scale": (None, 1), "input_scale": (None, 1)},
    "softplus": {"beta": (None, 1), "threshold": (None, 20)},
    "avg_pool1d": {"ceil_mode": (None, False)},
    "avg_pool2d": {"ceil_mode": (None, False), "divisor_override": (None,)},
    "avg_pool3d": {"ceil_mode": (None, False), "divisor_override": (None,)},
}


class _Arguments:
    """The arguments of an operator by the names of its schema, and by position."""

    def __init__(self, values: dict[str, Any], args: list[Any]) -> None:
        self.values, self.args = values, args

    def __getattr__(self, name: str) -> Any:
        return self.values.get(name.rstrip("_"))

    def __getitem__(self, index: int) -> Any:
        return self.args[index] if index < len(self.args) else None


_Rule = Callable[[Builder, fx.Node, _Arguments], Any]
RULES: dict[str, _Rule] = {}


def _rule_of(target: Any) -> _Rule | None:
    name = str(target).removeprefix("aten.")
    return RULES.get(name) or RULES.get(name.partition(".")[0])


def _rule(names: str) -> Callable[[_Rule], _Rule]:
    def register(function: _Rule) -> _Rule:
        for name in names.split():
            RULES[name] = function
        return function

    return register


def _val(node: Any) -> Any:
    return node.meta["val"]


def _name(node: Any) -> str:
    """Return the name of the operator that a node calls, such as ``add``."""
    name: str = node.target.overloadpacket.__name__
    return name


def _dim(d: int, n: int) -> int:
    return d % n if n else 0


def _list(value: Any, n: int) -> list[Any]:
    values = [value] * n if isinstance(value, int) else list(value)
    return values * n if len(values) == 1 else values


def _tail(b: Builder, x: str, n: int) -> str:
    """Return the last sizes of a value."""
    last = b.constant([_LAST], torch.int64)
    return b.op("Slice", b.op("Shape", x), b.constant([-n], torch.int64), last)
