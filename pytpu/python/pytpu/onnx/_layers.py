"""Rules of reductions, normalisation, convolutions and pooling."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytpu as torch

from .. import fx
from . import OnnxExporterError
from ._builder import Builder, _Arguments, _dim, _list, _name, _rule, _val
from ._pointwise import _one, _operands

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
