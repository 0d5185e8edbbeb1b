"""ONNX models from exported programs, through the package `onnx`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytpu as torch

from .. import _archive, _torch_dispatch, fx
from ..export import ExportedProgram, default_decompositions
from ..export.graph_signature import ConstantArgument, InputKind, OutputKind
from ..ops import OpOverload
from . import OnnxExporterError, _onnx

#: Numbers of dtypes in ONNX.
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
            return found if dtype in (None, own) else self.op("Cast", found, to=_dtype(dtype))  # type: ignore[arg-type]
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


# ---- element by element

for _names, _kind in {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "abs": "Abs",
    "neg": "Neg", "floor": "Floor", "ceil": "Ceil", "erf": "Erf", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "reciprocal": "Reciprocal", "sign": "Sign", "round": "Round", "mish": "Mish", "isnan": "IsNaN",
    "isinf": "IsInf", "hardswish": "HardSwish",
}.items():  # fmt: skip

    def _unary(b: Builder, node: fx.Node, a: _Arguments, kind: str = _kind) -> str:
        dtype = _val(a[0]).dtype if kind in ("IsNaN", "IsInf") else _val(node).dtype
        return b.op(kind, b.get(a[0], dtype))

    RULES[_names] = _unary


@_rule("clone contiguous detach alias lift_fresh_copy lift_fresh lift")
def _identity(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.get(a[0])


@_rule("dropout feature_dropout alpha_dropout")
def _dropout(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if a.train:
        raise OnnxExporterError("dropout in training is not written to ONNX: call eval() first")
    return b.get(a[0])


def _one(b: Builder, node: fx.Node, value: float) -> str:
    return b.constant(value, _val(node).dtype)


@_rule("rsqrt")
def _rsqrt(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Reciprocal", b.op("Sqrt", b.get(a[0], _val(node).dtype)))


@_rule("square")
def _square(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Mul", b.get(a[0]), b.get(a[0]))


@_rule("log1p expm1 log2 log10")
def _logs(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, name = b.get(a[0], _val(node).dtype), _name(node)
    if name == "log1p":
        return b.op("Log", b.op("Add", x, _one(b, node, 1.0)))
    if name == "expm1":
        return b.op("Sub", b.op("Exp", x), _one(b, node, 1.0))
    return b.op("Mul", b.op("Log", x), _one(b, node, 1 / math.log(2 if name == "log2" else 10)))


@_rule("silu")
def _silu(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Mul", b.get(a[0]), b.op("Sigmoid", b.get(a[0])))


@_rule("gelu")
def _gelu(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x = b.get(a[0])
    if a.approximate == "tanh":
        cube = b.op("Mul", b.op("Mul", x, b.op("Mul", x, x)), _one(b, node, 0.044715))
        inner = b.op("Tanh", b.op("Mul", b.op("Add", x, cube), _one(b, node, math.sqrt(2 / math.pi))))
    else:
        inner = b.op("Erf", b.op("Div", x, _one(b, node, math.sqrt(2.0))))
    return b.op("Mul", b.op("Mul", x, _one(b, node, 0.5)), b.op("Add", inner, _one(b, node, 1.0)))


@_rule("glu")
def _glu(b: Builder, node: fx.Node, a: _Arguments) -> str:
    at = _dim(-1 if a.dim is None else a.dim, _val(a[0]).dim())
    if isinstance(_val(node).shape[at], torch.SymInt):
        raise OnnxExporterError(f"{node.target} of a size that may change is not written to ONNX")
    half = int(_val(node).shape[at])
    first, second = b.op("Split", b.get(a[0]), b.ints([half, half]), outputs=2, axis=at)
    return b.op("Mul", first, b.op("Sigmoid", second))


@_rule("log_sigmoid tanhshrink")
def _of_parts(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x = b.get(a[0])
    if "tanhshrink" in str(node.target):
        return b.op("Sub", x, b.op("Tanh", x))
    return b.op("Neg", b.op("Softplus", b.op("Neg", x)))


@_rule("cosine_similarity")
def _cosine(b: Builder, node: fx.Node, a: _Arguments) -> str:
    dtype, axes = _val(node).dtype, b.ints([_dim(a.dim, max(_val(x).dim() for x in (a[0], a[1])))])
    x, y = _operands(b, node, a)
    low = b.constant(a.eps, dtype)
    lengths = [b.op("Max", b.op("Sqrt", b.op("ReduceSum", b.op("Mul", v, v), axes)), low) for v in (x, y)]
    parts = [b.op("Div", v, n) for v, n in zip((x, y), lengths)]
    return b.op("ReduceSum", b.op("Mul", *parts), axes, keepdims=0)


@_rule("elu leaky_relu softplus selu hardsigmoid softsign celu")
def _activation(b: Builder, node: fx.Node, a: _Arguments) -> str:
    name = _name(node)
    x = b.get(a[0])
    if name == "elu":
        return b.op("Elu", x, alpha=float(a.alpha))
    if name == "celu":
        return b.op("Celu", x, alpha=float(a.alpha))
    if name == "leaky_relu":
        return b.op("LeakyRelu", x, alpha=float(a.negative_slope))
    if name == "hardsigmoid":
        return b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)
    return b.op({"softplus": "Softplus", "selu": "Selu", "softsign": "Softsign"}[name], x)


@_rule("clamp clip hardtanh relu6 clamp_min clamp_max")
def _clamp(b: Builder, node: fx.Node, a: _Arguments) -> str:
    name, dtype = _name(node), _val(node).dtype
    low, high = {
        "hardtanh": (a.min_val, a.max_val),
        "relu6": (0, 6),
        "clamp_min": (a[1], None),
        "clamp_max": (None, a[1]),
    }.get(name, (a.min, a.max))
    x = b.get(a[0], dtype)
    if low is not None:
        x = b.op("Max", x, b.get(low, dtype))
    return x if high is None else b.op("Min", x, b.get(high, dtype))


def _operands(b: Builder, node: fx.Node, a: _Arguments, dtype: torch.dtype | None = None) -> tuple[str, str]:
    dtype = _val(node).dtype if dtype is None else dtype
    return b.get(a[0], dtype), b.get(a[1], dtype)


@_rule("add sub rsub")
def _add(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, y = _operands(b, node, a)
    name, dtype = _name(node), _val(node).dtype
    x, y = (y, x) if name == "rsub" else (x, y)
    if a.alpha not in (None, 1):
        scale = b.constant(a.alpha, dtype)
        y = b.op("Mul", y, scale)
    return b.op("Add" if name == "add" else "Sub", x, y)


@_rule("mul maximum minimum pow")
def _binary(b: Builder, node: fx.Node, a: _Arguments) -> str:
    kinds = {"mul": "Mul", "maximum": "Max", "minimum": "Min", "pow": "Pow"}
    name = _name(node)
    dtype = _val(node).dtype
    if dtype == torch.bool:
        return b.op("And" if name in ("mul", "minimum") else "Or", *_operands(b, node, a))
    return b.op(kinds[name], *_operands(b, node, a))


@_rule("div true_divide floor_divide")
def _div(b: Builder, node: fx.Node, a: _Arguments) -> str:
    quotient = b.op("Div", *_operands(b, node, a))
    mode = "floor" if "floor_divide" in str(node.target) else a.rounding_mode
    if mode is None:
        return quotient
    if not _val(node).dtype.is_floating_point:
        if mode == "floor":
            # ONNX rounds quotients of ints toward zero.
            x, y = _operands(b, node, a, torch.float64)
            return b.op("Cast", b.op("Floor", b.op("Div", x, y)), to=_dtype(_val(node).dtype))
        return quotient
    if mode == "floor":
        return b.op("Floor", quotient)
    return b.op("Mul", b.op("Sign", quotient), b.op("Floor", b.op("Abs", quotient)))


@_rule("remainder")
def _remainder(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, y = _operands(b, node, a)
    if not _val(node).dtype.is_floating_point:
        return b.op("Mod", x, y)
    return b.op("Sub", x, b.op("Mul", b.op("Floor", b.op("Div", x, y)), y))


@_rule("eq ne lt le gt ge")
def _compare(b: Builder, node: fx.Node, a: _Arguments) -> str:
    others = [_val(v) if isinstance(v, fx.Node) and isinstance(_val(v), torch.Tensor) else v for v in (a[0], a[1])]
    others = [int(_val(v)) if isinstance(v, fx.Node) else v for v in others]
    dtype = torch.result_type(*others)
    name = _name(node)
    if dtype == torch.bool:
        dtype = torch.int32
    x, y = _operands(b, node, a, dtype)
    kinds = {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal", "ne": "Equal"}
    found = b.op(kinds[name], x, y)
    return b.op("Not", found) if name == "ne" else found


@_rule("logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor")
def _logic(b: Builder, node: fx.Node, a: _Arguments) -> str:
    name = _name(node)
    kind = name.partition("_")[2].capitalize()
    if _val(node).dtype == torch.bool:
        return b.op(kind, *_operands(b, node, a, torch.bool))
    return b.op(f"Bitwise{kind}", *_operands(b, node, a))


@_rule("logical_not bitwise_not")
def _not(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if _val(node).dtype == torch.bool:
        return b.op("Not", b.get(a[0], torch.bool))
    return b.op("BitwiseNot", b.get(a[0]))


@_rule("where.self where.ScalarSelf where.ScalarOther where.Scalar")
def _where(b: Builder, node: fx.Node, a: _Arguments) -> str:
    dtype = _val(node).dtype
    return b.op("Where", b.get(a[0], torch.bool), b.get(a[1], dtype), b.get(a[2], dtype))


@_rule("masked_fill")
def _masked_fill(b: Builder, node: fx.Node, a: _Arguments) -> str:
    dtype = _val(node).dtype
    return b.op("Where", b.get(a[1], torch.bool), b.get(a[2], dtype), b.get(a[0], dtype))


@_rule("to _to_copy type_as")
def _cast(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.get(a[0], _val(node).dtype)


# ---- products


@_rule("linear")
def _linear(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, w = b.get(a[0]), b.op("Transpose", b.get(a[1]), perm=[1, 0])
    y = b.op("MatMul", x, w)
    return y if a[2] is None else b.op("Add", y, b.get(a[2]))


@_rule("matmul mm bmm mv dot")
def _matmul(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("MatMul", b.get(a[0]), b.get(a[1]))


@_rule("addmm baddbmm")
def _addmm(b: Builder, node: fx.Node, a: _Arguments) -> str:
    y, x = b.op("MatMul", b.get(a[1]), b.get(a[2])), b.get(a[0])
    if a.alpha not in (None, 1):
        y = b.op("Mul", y, _one(b, node, a.alpha))
    if a.beta not in (None, 1):
        x = b.op("Mul", x, _one(b, node, a.beta))
    return b.op("Add", x, y)


@_rule("einsum")
def _einsum(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Einsum", *(b.get(x) for x in a[1]), equation=a[0].replace(" ", ""))


@_rule("scaled_dot_product_attention")
def _attention(b: Builder, node: fx.Node, a: _Arguments) -> str:
    q, k, v = (b.get(x) for x in (a[0], a[1], a[2]))
    dtype, rank = _val(a[0]).dtype, _val(a[0]).dim()
    if a.dropout_p:
        raise OnnxExporterError("attention with dropout is not written to ONNX: call eval() first")
    if a.enable_gqa:
        raise OnnxExporterError("attention with groups of heads is not written to ONNX")
    width = _val(a[0]).shape[-1]
    scale = 1 / math.sqrt(int(width)) if a.scale is None else a.scale
    perm = [*range(rank - 2), rank - 1, rank - 2]
    scores = b.op("MatMul", b.op("Mul", q, b.constant(scale, dtype)), b.op("Transpose", k, perm=perm))
    low = b.constant(-math.inf, dtype)
    if a.is_causal:
        ones = b.op("Expand", b.constant(1, torch.int32), _tail(b, scores, 2))
        scores = b.op("Where", b.op("Cast", b.op("Trilu", ones, upper=0), to=9), scores, low)
    if a.attn_mask is not None:
        mask = b.get(a.attn_mask)
        if _val(a.attn_mask).dtype == torch.bool:
            scores = b.op("Where", mask, scores, low)
        else:
            scores = b.op("Add", scores, mask)
    return b.op("MatMul", b.op("Softmax", scores, axis=-1), v)


def _tail(b: Builder, x: str, n: int) -> str:
    """Return the last sizes of a value."""
    last = b.constant([_LAST], torch.int64)
    return b.op("Slice", b.op("Shape", x), b.constant([-n], torch.int64), last)


# ---- forms


@_rule("view reshape _unsafe_view")
def _reshape(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if isinstance(a[1], torch.dtype):
        raise OnnxExporterError(f"{node.target} is not written to ONNX")
    return b.op("Reshape", b.get(a[0]), b.ints(a[1]), allowzero=1)


@_rule("view_as reshape_as")
def _reshape_as(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Reshape", b.get(a[0]), b.op("Shape", b.get(a[1])), allowzero=1)


@_rule("flatten")
def _flatten(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n, x = _val(a[0]).dim(), b.get(a[0])
    start, end = _dim(a.start_dim, n), _dim(a.end_dim, n)
    parts = [b.constant([0] * start, torch.int64)] if start else []
    parts.append(b.constant([-1], torch.int64))
    if end < n - 1:
        parts.append(_tail(b, x, n - 1 - end))
    shape = b.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
    return b.op("Reshape", x, shape)


@_rule("unflatten")
def _unflatten(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n, x = _val(a[0]).dim(), b.get(a[0])
    at = _dim(a[1], n)
    parts = [b.constant([0] * at, torch.int64)] if at else []
    parts.append(b.ints(a[2]))
    if at < n - 1:
        parts.append(_tail(b, x, n - 1 - at))
    return b.op("Reshape", x, b.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0])


@_rule("unsqueeze")
def _unsqueeze(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Unsqueeze", b.get(a[0]), b.ints([a[1] % (_val(a[0]).dim() + 1)]))


@_rule("squeeze")
def _squeeze(b: Builder, node: fx.Node, a: _Arguments) -> str:
    sizes = _val(a[0]).shape
    dims = range(len(sizes)) if a[1] is None else ([a[1]] if isinstance(a[1], int) else a[1])
    gone = [_dim(d, len(sizes)) for d in dims if sizes[d] == 1 and not isinstance(sizes[d], torch.SymInt)]
    return b.op("Squeeze", b.get(a[0]), b.ints(gone)) if gone else b.get(a[0])


@_rule("transpose swapaxes swapdims t permute movedim")
def _permute(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n, name = _val(a[0]).dim(), _name(node)
    perm = list(range(n))
    if name == "permute":
        perm = [_dim(d, n) for d in a[1]]
    elif name == "movedim":
        source, goal = (([v] if isinstance(v, int) else list(v)) for v in (a[1], a[2]))
        source, goal = [_dim(d, n) for d in source], [_dim(d, n) for d in goal]
        rest = [d for d in range(n) if d not in source]
        perm = [source[goal.index(d)] if d in goal else rest.pop(0) for d in range(n)]
    elif n >= 2:
        x, y = (0, 1) if name == "t" else (_dim(a[1], n), _dim(a[2], n))
        perm[x], perm[y] = perm[y], perm[x]
    return b.op("Transpose", b.get(a[0]), perm=perm)


@_rule("expand broadcast_to")
def _expand(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Expand", b.get(a[0]), b.ints([1 if type(n) is int and n == -1 else n for n in a[1]]))


@_rule("expand_as")
def _expand_as(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Expand", b.get(a[0]), b.op("Shape", b.get(a[1])))


@_rule("repeat")
def _repeat(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, extra = b.get(a[0]), len(a[1]) - _val(a[0]).dim()
    if extra:
        x = b.op("Unsqueeze", x, b.ints(list(range(extra))))
    return b.op("Tile", x, b.ints(a[1]))


@_rule("cat concat concatenate")
def _cat(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Concat", *(b.get(x, _val(node).dtype) for x in a[0]), axis=_dim(a.dim or 0, _val(node).dim()))


@_rule("stack")
def _stack(b: Builder, node: fx.Node, a: _Arguments) -> str:
    at = _dim(a.dim or 0, _val(node).dim())
    parts = [b.op("Unsqueeze", b.get(x, _val(node).dtype), b.ints([at])) for x in a[0]]
    return b.op("Concat", *parts, axis=at)


@_rule("split split_with_sizes chunk unbind tensor_split")
def _split(b: Builder, node: fx.Node, a: _Arguments) -> Any:
    parts = _val(node)
    at = _dim(a.dim or 0, _val(a[0]).dim())
    name = _name(node)
    if name == "unbind":
        sizes = [1] * len(parts)
    else:
        sizes = [part.shape[at] for part in parts]
        if any(isinstance(n, torch.SymInt) for n in sizes):
            raise OnnxExporterError(f"{node.target} of a size that may change is not written to ONNX")
    found = b.op("Split", b.get(a[0]), b.ints([int(n) for n in sizes]), outputs=len(sizes), axis=at)
    found = [found] if isinstance(found, str) else found
    return [b.op("Squeeze", x, b.ints([at])) for x in found] if name == "unbind" else found


@_rule("slice")
def _slice(b: Builder, node: fx.Node, a: _Arguments) -> str:
    start, end, step = a.start or 0, _LAST if a.end is None else a.end, a.step or 1
    at = _dim(a.dim or 0, _val(a[0]).dim())
    return b.op("Slice", b.get(a[0]), b.ints([start]), b.ints([end]), b.ints([at]), b.ints([step]))


@_rule("narrow")
def _narrow(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if type(a[2]) is not int or type(a[3]) is not int:
        raise OnnxExporterError(f"{node.target} of a size that may change is not written to ONNX")
    start = _dim(a[2], int(_val(a[0]).shape[a[1]]))
    return b.op("Slice", b.get(a[0]), b.ints([start]), b.ints([start + a[3]]), b.ints([_dim(a[1], _val(a[0]).dim())]))


@_rule("select")
def _select(b: Builder, node: fx.Node, a: _Arguments) -> str:
    index = b.constant(a[2], torch.int64) if type(a[2]) is int else b.names[a[2]]
    return b.op("Gather", b.get(a[0]), index, axis=_dim(a[1], _val(a[0]).dim()))


@_rule("flip")
def _flip(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n = len(a[1])
    axes = [_dim(d, _val(a[0]).dim()) for d in a[1]]
    return b.op("Slice", b.get(a[0]), b.ints([-1] * n), b.ints([-_LAST] * n), b.ints(axes), b.ints([-1] * n))


@_rule("roll")
def _roll(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, n = b.get(a[0]), _val(a[0]).dim()
    shifts, dims = ([v] if isinstance(v, int) else list(v or ()) for v in (a[1], a[2]))
    if not dims:
        raise OnnxExporterError(f"{node.target} without dimensions is not written to ONNX")
    for shift, d in zip(shifts, dims):
        size, axes = _val(a[0]).shape[d], b.ints([_dim(d, n)])
        if isinstance(size, torch.SymInt) or type(shift) is not int:
            raise OnnxExporterError(f"{node.target} of a size that may change is not written to ONNX")
        at = int(size) - shift % int(size) if size else 0
        first = b.op("Slice", x, b.ints([0]), b.ints([at]), axes)
        second = b.op("Slice", x, b.ints([at]), b.ints([_LAST]), axes)
        x = b.op("Concat", second, first, axis=_dim(d, n))
    return x


@_rule("pad constant_pad_nd")
def _pad(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n, pads = _val(a[0]).dim(), list(a[1])
    before, after = [0] * n, [0] * n
    for i in range(len(pads) // 2):
        before[n - 1 - i], after[n - 1 - i] = pads[2 * i], pads[2 * i + 1]
    mode = {"replicate": "edge", "circular": "wrap"}.get(a.mode, a.mode) or "constant"
    if mode == "wrap":
        raise OnnxExporterError("padding of mode circular is not written to ONNX")
    value = b.constant(a.value or 0, _val(node).dtype)
    return b.op("Pad", b.get(a[0]), b.ints([*before, *after]), *([value] if mode == "constant" else []), mode=mode)


@_rule("tril triu")
def _trilu(b: Builder, node: fx.Node, a: _Arguments) -> str:
    upper = int("triu" in str(node.target))
    return b.op("Trilu", b.get(a[0]), b.constant(a.diagonal or 0, torch.int64), upper=upper)


@_rule("pixel_shuffle")
def _pixel_shuffle(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("DepthToSpace", b.get(a[0]), blocksize=a[1], mode="CRD")


# ---- indices


@_rule("embedding")
def _embedding(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Gather", b.get(a[0]), b.get(a[1]))


@_rule("index_select")
def _index_select(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Gather", b.get(a[0]), b.get(a[2]), axis=_dim(a[1], _val(a[0]).dim()))


@_rule("gather")
def _gather(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("GatherElements", b.get(a[0]), b.get(a[2]), axis=_dim(a[1], _val(a[0]).dim()))


@_rule("index")
def _index(b: Builder, node: fx.Node, a: _Arguments) -> str:
    used = [i for i, index in enumerate(a[1]) if index is not None]
    if any(_val(a[1][i]).dtype in (torch.bool, torch.uint8) for i in used):
        raise OnnxExporterError("an index that is a mask is not written to ONNX")
    if len(used) == 1:
        return b.op("Gather", b.get(a[0]), b.get(a[1][used[0]]), axis=used[0])
    if used == list(range(len(used))):
        sizes = torch.broadcast_shapes(*(tuple(map(int, _val(a[1][i]).shape)) for i in used))
        parts = []
        for i in used:
            index = b.get(a[1][i], torch.int64)
            if tuple(_val(a[1][i]).shape) != tuple(sizes):
                if any(isinstance(n, torch.SymInt) for j in used for n in _val(a[1][j]).shape):
                    raise OnnxExporterError("indices of several sizes that may change are not written to ONNX")
                index = b.op("Expand", index, b.ints([int(n) for n in sizes]))
            parts.append(b.op("Unsqueeze", index, b.ints([-1])))
        return b.op("GatherND", b.get(a[0]), b.op("Concat", *parts, axis=-1))
    raise OnnxExporterError("indices of several dimensions that are not the first are not written to ONNX")


@_rule("topk")
def _topk(b: Builder, node: fx.Node, a: _Arguments) -> Any:
    at = _dim(-1 if a.dim is None else a.dim, _val(a[0]).dim())
    return b.op("TopK", b.get(a[0]), b.ints([a[1]]), outputs=2, axis=at, largest=int(a.largest), sorted=1)


@_rule("sort argsort")
def _sort(b: Builder, node: fx.Node, a: _Arguments) -> Any:
    at = _dim(-1 if a.dim is None else a.dim, _val(a[0]).dim())
    x = b.get(a[0])
    count = b.op("Gather", b.op("Shape", x), b.ints([at]))
    found = b.op("TopK", x, count, outputs=2, axis=at, largest=int(bool(a.descending)), sorted=1)
    return found[1] if "argsort" in str(node.target) else found


@_rule("one_hot")
def _one_hot(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if a[1] in (None, -1):
        raise OnnxExporterError("one_hot without a number of classes is not written to ONNX")
    return b.op("OneHot", b.get(a[0]), b.ints([a[1]]), b.constant([0, 1], torch.int64), axis=-1)


# ---- reductions


def _axes(b: Builder, node: Any, dim: Any) -> list[str]:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return []
    dims = [dim] if isinstance(dim, int) else list(dim)
    return [b.ints([_dim(d, _val(node).dim()) for d in dims])]


@_rule("sum mean amax amin prod logsumexp")
def _reduce(b: Builder, node: fx.Node, a: _Arguments) -> str:
    kinds = {
        "sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd",
        "logsumexp": "ReduceLogSumExp",
    }  # fmt: skip
    kind = kinds[_name(node)]
    return b.op(kind, b.get(a[0], _val(node).dtype), *_axes(b, a[0], a.dim), keepdims=int(bool(a.keepdim)))


@_rule("max.default min.default")
def _extreme(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("ReduceMax" if "max" in str(node.target) else "ReduceMin", b.get(a[0]), keepdims=0)


@_rule("max.dim min.dim")
def _extreme_of_dim(b: Builder, node: fx.Node, a: _Arguments) -> list[str]:
    at, keep = _dim(a[1], _val(a[0]).dim()), int(bool(a.keepdim))
    kind = "Max" if "max" in str(node.target) else "Min"
    x = b.get(a[0])
    return [b.op(f"Reduce{kind}", x, b.ints([at]), keepdims=keep), b.op(f"Arg{kind}", x, axis=at, keepdims=keep)]


@_rule("max.other min.other")
def _extreme_of_two(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Max" if "max" in str(node.target) else "Min", *_operands(b, node, a))


@_rule("argmax argmin")
def _argmax(b: Builder, node: fx.Node, a: _Arguments) -> str:
    kind, x = "ArgMax" if "argmax" in str(node.target) else "ArgMin", b.get(a[0])
    if a.dim is None:
        return b.op(kind, b.op("Reshape", x, b.ints([-1])), axis=0, keepdims=0)
    return b.op(kind, x, axis=_dim(a.dim, _val(a[0]).dim()), keepdims=int(bool(a.keepdim)))


@_rule("any all")
def _any(b: Builder, node: fx.Node, a: _Arguments) -> str:
    kind = "ReduceMax" if str(node.target).startswith("aten.any") else "ReduceMin"
    x = b.op("Cast", b.get(a[0], torch.bool), to=6)
    return b.op("Cast", b.op(kind, x, *_axes(b, a[0], a.dim), keepdims=int(bool(a.keepdim))), to=9)


@_rule("var std")
def _var(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, axes = b.get(a[0]), _axes(b, a[0], a.dim if not isinstance(a.dim, bool) else None)
    correction = a.correction if a.correction is not None else float(a.unbiased is not False)
    sizes = _val(a[0]).shape
    dims = range(len(sizes)) if not axes else ([a.dim] if isinstance(a.dim, int) else a.dim)
    if any(isinstance(sizes[d], torch.SymInt) for d in dims) and correction:
        raise OnnxExporterError("a variance over a size that may change is not written to ONNX")
    count = math.prod(int(sizes[d]) for d in dims)
    centered = b.op("Sub", x, b.op("ReduceMean", x, *axes, keepdims=1))
    found = b.op("ReduceMean", b.op("Mul", centered, centered), *axes, keepdims=int(bool(a.keepdim)))
    if correction:
        found = b.op("Mul", found, _one(b, node, count / (count - correction)))
    return b.op("Sqrt", found) if "std" in str(node.target) else found


@_rule("linalg_vector_norm norm")
def _norm(b: Builder, node: fx.Node, a: _Arguments) -> str:
    order = a.ord if "linalg" in str(node.target) else a.p
    kinds = {1: "ReduceL1", 2: "ReduceL2", None: "ReduceL2"}
    if order not in kinds:
        raise OnnxExporterError(f"a norm of order {order} is not written to ONNX")
    return b.op(kinds[order], b.get(a[0]), *_axes(b, a[0], a.dim), keepdims=int(bool(a.keepdim)))


@_rule("cumsum")
def _cumsum(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("CumSum", b.get(a[0], _val(node).dtype), b.constant(_dim(a[1], _val(a[0]).dim()), torch.int64))


# ---- normalisation


@_rule("softmax log_softmax _softmax _log_softmax special_softmax")
def _softmax(b: Builder, node: fx.Node, a: _Arguments) -> str:
    kind = "LogSoftmax" if "log" in str(node.target) else "Softmax"
    return b.op(kind, b.get(a[0], _val(node).dtype), axis=_dim(a[1], _val(a[0]).dim()))


@_rule("layer_norm")
def _layer_norm(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n, dtype = len(a[1]), _val(a[0]).dtype
    sizes = [int(s) for s in a[1]]
    weight = b.get(a.weight) if a.weight is not None else b.tensor(torch.ones(sizes, dtype=dtype), f"ones_{node.name}")
    bias = [b.get(a.bias)] if a.bias is not None else []
    return b.op("LayerNormalization", b.get(a[0]), weight, *bias, axis=-n, epsilon=float(a.eps))


@_rule("native_layer_norm")
def _native_layer_norm(b: Builder, node: fx.Node, a: _Arguments) -> list[str]:
    _first_only(node)
    return [_layer_norm(b, node, a)] * 3


@_rule("_native_batch_norm_legit_no_training")
def _native_batch_norm(b: Builder, node: fx.Node, a: _Arguments) -> list[str]:
    _first_only(node)
    return [_batch_norm(b, node, a)] * 3


def _first_only(node: fx.Node) -> None:
    if any(user.target is operator.getitem and user.args[1] and user.users for user in node.users):
        raise OnnxExporterError(f"further results of {node.target} are not written to ONNX")


@_rule("rms_norm")
def _rms_norm(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, dtype = b.get(a[0]), _val(a[0]).dtype
    axes = b.ints(list(range(-len(a[1]), 0)))
    eps = torch.finfo(dtype).eps if a.eps is None else a.eps
    mean = b.op("Add", b.op("ReduceMean", b.op("Mul", x, x), axes, keepdims=1), b.constant(eps, dtype))
    y = b.op("Div", x, b.op("Sqrt", mean))
    return y if a.weight is None else b.op("Mul", y, b.get(a.weight))


@_rule("batch_norm")
def _batch_norm(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if a.training:
        raise OnnxExporterError("batch_norm in training is not written to ONNX: call eval() first")
    count, dtype = [int(_val(a[0]).shape[1])], _val(a[0]).dtype
    weight = b.get(a.weight) if a.weight is not None else b.tensor(torch.ones(count, dtype=dtype), f"ones_{node.name}")
    bias = b.get(a.bias) if a.bias is not None else b.tensor(torch.zeros(count, dtype=dtype), f"zeros_{node.name}")
    mean, var = b.get(a.running_mean), b.get(a.running_var)
    return b.op("BatchNormalization", b.get(a[0]), weight, bias, mean, var, epsilon=float(a.eps))


@_rule("group_norm")
def _group_norm(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, value = b.get(a[0]), _val(a[0])
    groups, channels, dtype = a.num_groups, int(value.shape[1]), value.dtype
    flat = b.op("Reshape", x, b.ints([0, groups, -1]))
    ones = b.constant([1.0] * groups, dtype)
    zeros = b.constant([0.0] * groups, dtype)
    y = b.op("InstanceNormalization", flat, ones, zeros, epsilon=float(a.eps))
    y = b.op("Reshape", y, b.op("Shape", x))
    shape = b.ints([1, channels, *([1] * (value.dim() - 2))])
    if a.weight is not None:
        y = b.op("Mul", y, b.op("Reshape", b.get(a.weight), shape))
    return y if a.bias is None else b.op("Add", y, b.op("Reshape", b.get(a.bias), shape))


# ---- convolutions and pooling


@_rule("conv1d conv2d conv3d")
def _conv(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n = _val(a[1]).dim() - 2
    padding: dict[str, Any] = {}
    if isinstance(a.padding, str):
        total = [d * (int(k) - 1) for d, k in zip(_list(a.dilation, n), _val(a[1]).shape[2:])]
        total = [0] * n if a.padding == "valid" else total
        padding["pads"] = [*(t // 2 for t in total), *(t - t // 2 for t in total)]
    else:
        padding["pads"] = _list(a.padding, n) * 2
    bias = [b.get(a.bias)] if a.bias is not None else []
    x, value = b.get(a[0]), _val(a[0])
    is_single = value.dim() == n + 1
    x = b.op("Unsqueeze", x, b.ints([0])) if is_single else x
    y = b.op(
        "Conv", x, b.get(a[1]), *bias, strides=_list(a.stride, n), dilations=_list(a.dilation, n),
        group=a.groups, **padding,
    )  # fmt: skip
    return b.op("Squeeze", y, b.ints([0])) if is_single else y


@_rule("convolution")
def _convolution(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return (_conv_transpose if a.transposed else _conv)(b, node, a)


@_rule("conv_transpose1d conv_transpose2d conv_transpose3d")
def _conv_transpose(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n = _val(a[1]).dim() - 2
    bias = [b.get(a.bias)] if a.bias is not None else []
    _batched(node, a, n)
    return b.op(
        "ConvTranspose", b.get(a[0]), b.get(a[1]), *bias, strides=_list(a.stride, n), pads=_list(a.padding, n) * 2,
        output_padding=_list(a.output_padding, n), dilations=_list(a.dilation, n), group=a.groups,
    )  # fmt: skip


def _batched(node: fx.Node, a: _Arguments, n: int) -> None:
    if _val(a[0]).dim() != n + 2:
        raise OnnxExporterError(f"{node.target} of an input without a batch is not written to ONNX")


@_rule("max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices")
def _max_pool(b: Builder, node: fx.Node, a: _Arguments) -> list[str]:
    _first_only(node)
    return [_pool(b, node, a)] * 2


@_rule("max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d")
def _pool(b: Builder, node: fx.Node, a: _Arguments) -> str:
    name = _name(node).removesuffix("_with_indices")
    n = int(name[-2])
    _batched(node, a, n)
    kernel = _list(a.kernel_size, n)
    strides = _list(a.stride, n) if a.stride else kernel
    common = {"kernel_shape": kernel, "strides": strides, "pads": _list(a.padding, n) * 2}
    common["ceil_mode"] = int(bool(a.ceil_mode))
    if name.startswith("max"):
        return b.op("MaxPool", b.get(a[0]), dilations=_list(a.dilation or 1, n), **common)
    return b.op("AveragePool", b.get(a[0]), count_include_pad=int(a.count_include_pad is not False), **common)


@_rule("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d")
def _adaptive_pool(b: Builder, node: fx.Node, a: _Arguments) -> Any:
    name = _name(node)
    n = int(name[-2])
    _batched(node, a, n)
    sizes, goal = _val(a[0]).shape[-n:], _list(a.output_size, n)
    is_max = "max" in name
    if is_max:
        _first_only(node)
    if all(g == 1 for g in goal):
        found = b.op("GlobalMaxPool" if is_max else "GlobalAveragePool", b.get(a[0]))
        return [found, found] if is_max else found
    if any(isinstance(s, torch.SymInt) or int(s) % g for s, g in zip(sizes, goal)):
        raise OnnxExporterError(f"{name} to sizes that do not divide those of the input is not written to ONNX")
    kernel = [int(s) // g for s, g in zip(sizes, goal)]
    found = b.op("MaxPool" if is_max else "AveragePool", b.get(a[0]), kernel_shape=kernel, strides=kernel)
    return [found, found] if is_max else found


@_rule(
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_bicubic2d"
)
def _upsample(b: Builder, node: fx.Node, a: _Arguments) -> str:
    name = _name(node)
    mode = "nearest" if "nearest" in name else "cubic" if "cubic" in name else "linear"
    form = "align_corners" if a.align_corners else "asymmetric" if mode == "nearest" else "half_pixel"
    options: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": form}
    if mode == "nearest":
        options["nearest_mode"] = "floor"
    if mode == "cubic":
        options["cubic_coeff_a"] = -0.75
    x = b.get(a[0])
    if a.scale_factors:
        scales = b.constant([1.0, 1.0, *map(float, a.scale_factors)], torch.float32)
        return b.op("Resize", x, "", scales, **options)
    head = b.op("Slice", b.op("Shape", x), b.ints([0]), b.ints([2]))
    return b.op("Resize", x, "", "", b.op("Concat", head, b.ints(a.output_size), axis=0), **options)


# ---- new tensors


@_rule("sym_size")
def _sym_size(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Gather", b.op("Shape", b.get(a[0])), b.constant(_dim(a[1], _val(a[0]).dim()), torch.int64))


@_rule("arange")
def _arange(b: Builder, node: fx.Node, a: _Arguments) -> str:
    dtype = _val(node).dtype
    values = [v for v in a.args if not isinstance(v, torch.dtype)]
    start, end, step = (0, values[0], 1) if len(values) == 1 else (values[0], values[1], (values[2:] or [1])[0])
    return b.op("Range", b.get(start, dtype), b.get(end, dtype), b.get(step, dtype))


@_rule("full zeros ones empty new_full new_zeros new_ones")
def _full(b: Builder, node: fx.Node, a: _Arguments) -> str:
    name, dtype = _name(node), _val(node).dtype
    at = int(name.startswith("new_"))
    value = a[at + 1] if "full" in name else float("ones" in name)
    return b.op("Expand", b.get(value, dtype), b.ints(a[at])) if a[at] else b.get(value, dtype)


@_rule("eye linspace logspace tril_indices triu_indices")
def _known(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if node.all_input_nodes:
        raise OnnxExporterError(f"{node.target} of a size that may change is not written to ONNX")
    kwargs = {key: value for key, value in node.kwargs.items() if key == "dtype"}
    return b.tensor(node.target(*node.args, **kwargs).to(_val(node).dtype), node.name)  # type: ignore[operator]


@_rule("full_like zeros_like ones_like scalar_tensor")
def _full_like(b: Builder, node: fx.Node, a: _Arguments) -> str:
    name, dtype = _name(node), _val(node).dtype
    if name == "scalar_tensor":
        return b.get(a[0], dtype)
    value = a[1] if "full" in name else float("ones" in name)
    return b.op("Expand", b.get(value, dtype), b.op("Shape", b.get(a[0])))


class _Table(dict[Any, Any]):
    """A table for `run_decompositions` under which other operators stay whole."""

    keeps_compositions = True


def _parts(target: Any) -> Callable[..., Any]:
    """Return a function that runs the operators of a composed one."""
    running = False

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal running
        mode = _torch_dispatch._innermost()
        if running or mode is None:
            return NotImplemented
        running, mode.keeps_compositions = True, False
        try:
            return target(*args, **kwargs)
        finally:
            running, mode.keeps_compositions = False, True

    return run


def functional(program: ExportedProgram) -> ExportedProgram:
    """Return the program without writes to its inputs. Operators without a rule are replaced by their parts."""
    known = default_decompositions()
    table = _Table()
    while True:
        found = program.run_decompositions(table)
        missing = {
            target
            for target in (node.target for node in found.graph.nodes if node.op == "call_function")
            if isinstance(target, OpOverload) and target not in table
            and _rule_of(target) is None and target.namespace == "aten"
        }  # fmt: skip
        if not missing:
            return found
        table.update({target: known.get(target) or _parts(target) for target in missing})
