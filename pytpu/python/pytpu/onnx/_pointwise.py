"""Rules of operators that work element by element, and of products."""

from __future__ import annotations

import math

import pytpu as torch

from .. import fx
from . import OnnxExporterError
from ._builder import RULES, Builder, _Arguments, _dim, _dtype, _name, _rule, _tail, _val

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
