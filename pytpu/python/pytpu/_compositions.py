"""PyTorch's compositions of operators above autograd, in the order of its parts.

A mode, or a class with `__torch_dispatch__`, gets the parts: `aten.t` and `aten.addmm` of a linear layer.
Operators that are not here are composed by the library, whose parts have aten's names too, but may be others.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Sequence

from . import _C

_ops = _C._ops
Tensor = _C.Tensor


def _aten() -> typing.Any:
    from . import ops

    return ops.aten


def _has_own_history(*tensors: Tensor | None) -> bool:
    """Whether autograd records an operator on one of the tensors whose class answers the call."""
    return _C.is_grad_enabled() and any(t is not None and _C._is_foreign(t) for t in tensors)


def _unsafe_view(x: Tensor, size: Sequence[int]) -> Tensor:
    return _ops.view(x, size) if _has_own_history(x) else _aten()._unsafe_view.default(x, size)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if input.dim() == 2 and bias is not None:
        return _ops.addmm(bias, input, _ops.t(weight))
    if input.dim() == 3 and bias is not None and input.is_contiguous():
        flat = _ops.view(input, [input.shape[0] * input.shape[1], input.shape[2]])
        y = _ops.addmm(bias, flat, _ops.t(weight))
        return _unsafe_view(y, [input.shape[0], input.shape[1], y.shape[1]])
    y = matmul(input, _ops.t(weight) if weight.dim() == 2 else weight)
    return y if bias is None else _ops.add(y, bias)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    a, b = input.dim(), other.dim()
    if a == 0 or b == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D")
    if a == 1 and b == 1:
        return _ops.dot(input, other)
    if a == 2 and b == 1:
        return _ops.mv(input, other)
    if a == 1 and b == 2:
        return _ops.squeeze(_ops.mm(_ops.unsqueeze(input, 0), other), 0)
    if a == 2 and b == 2:
        return _ops.mm(input, other)
    if a >= 3 and b <= 2:
        lead = list(input.shape[:-1])
        flat = (
            _ops.view(input, [math.prod(lead), input.shape[-1]])
            if input.is_contiguous()
            else reshape(input, [math.prod(lead), input.shape[-1]])
        )
        if b == 1:
            return _unsafe_view(_ops.mv(flat, other), lead)
        return _unsafe_view(_ops.mm(flat, other), [*lead, other.shape[-1]])
    vector = a == 1
    left = _ops.unsqueeze(input, 0) if vector else input
    right = _ops.unsqueeze(other, 1) if b == 1 else other
    lead = _broadcast(left.shape[:-2], right.shape[:-2])
    n, m, p = left.shape[-2], left.shape[-1], right.shape[-1]
    count = math.prod(lead)
    x = reshape(_ops.expand(left, [*lead, n, m]), [count, n, m], always=True)
    w = reshape(_ops.expand(right, [*lead, right.shape[-2], p]), [count, right.shape[-2], p], always=True)
    y = _ops.bmm(x, w)
    shape = [*lead, *([] if vector else [n]), *([] if b == 1 else [p])]
    return _unsafe_view(y, shape)


def _broadcast(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """Return the sizes to which both sizes are broadcast."""
    n = max(len(a), len(b))
    pairs = zip([1] * (n - len(a)) + list(a), [1] * (n - len(b)) + list(b), strict=True)
    sizes = []
    for i, (x, y) in enumerate(pairs):
        if x != y and 1 not in (x, y):
            raise RuntimeError(
                f"The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i}"
            )
        sizes.append(y if x == 1 else x)
    return sizes


def _sizes(x: Tensor, shape: Sequence[int]) -> list[int]:
    """Return the sizes of a reshaped tensor, with the one that is -1."""
    sizes = list(shape)
    if sizes.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        if known == 0 or x.numel() % known:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {x.numel()}")
        sizes[sizes.index(-1)] = x.numel() // known
    elif math.prod(sizes) != x.numel():
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {x.numel()}")
    return sizes


def _is_viewable(x: Tensor, sizes: Sequence[int]) -> bool:
    """Whether strides can describe the elements of a tensor with other sizes."""
    if x.is_contiguous() or x.numel() == 0:
        return True
    old = [(n, s) for n, s in zip(x.shape, x.stride(), strict=True) if n != 1]
    at = len(old) - 1
    new = [n for n in sizes if n != 1]
    j = len(new) - 1
    while at >= 0:
        # The last dimensions of the old sizes that lie one after another.
        base = old[at][1]
        count = old[at][0]
        while at > 0 and old[at - 1][1] == count * base:
            at -= 1
            count *= old[at][0]
        at -= 1
        product = 1
        while j >= 0 and product < count:
            product *= new[j]
            j -= 1
        if product != count:
            return False
    return True


def reshape(self: Tensor, shape: Sequence[int], always: bool = False) -> Tensor:
    sizes = _sizes(self, shape)
    if list(self.shape) == sizes and not always:
        return _ops.view(self, sizes) if _is_viewable(self, sizes) else self
    if _is_viewable(self, sizes):
        return _ops.view(self, sizes)
    copy = _ops.clone(self, memory_format=_C.contiguous_format)
    return _unsafe_view(copy, sizes)


def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    n = self.dim()
    if n == 0:
        return reshape(self, [1])
    start, end = (d + n if d < 0 else d for d in (start_dim, end_dim))
    if not 0 <= start < n or not 0 <= end < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got "
            f"{start_dim if not 0 <= start < n else end_dim})"
        )
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end:
        return self
    return reshape(self, [*self.shape[:start], math.prod(self.shape[start : end + 1]), *self.shape[end + 1 :]])


def contiguous(self: Tensor, *, memory_format: typing.Any = None) -> Tensor:
    form = _C.contiguous_format if memory_format is None else memory_format
    return self if self.is_contiguous(memory_format=form) else _ops.clone(self, memory_format=form)


def chunk(self: Tensor, chunks: int, dim: int = 0) -> typing.Any:
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    return _ops.split(self, max(1, -(-self.shape[dim] // chunks)), dim)


def _dims(dim: typing.Any) -> typing.Any:
    return [dim] if isinstance(dim, int) else dim


def _spread(name: str) -> typing.Any:
    def default(self: Tensor, unbiased: bool = True) -> Tensor:
        return getattr(_ops, name)(self, **({} if unbiased else {"correction": 0}), dim=None)

    def over(self: Tensor, dim: typing.Any, unbiased: bool = True, keepdim: bool = False) -> Tensor:
        return getattr(_ops, name)(self, _dims(dim), correction=int(unbiased), keepdim=keepdim)

    return default, over


def _cast(name: str) -> typing.Any:
    dtype = getattr(_C, name)

    def call(self: Tensor, *, memory_format: typing.Any = None) -> Tensor:
        if self.dtype == dtype:
            return self
        return NotImplemented if _has_own_history(self) else _aten()._to_copy.default(self, dtype=dtype)

    return call


def _upsample(name: str, n: int) -> typing.Any:
    has_corners = name not in ("upsample_nearest", "_upsample_nearest_exact")

    def call(input: Tensor, output_size: typing.Any, *rest: typing.Any) -> Tensor:
        *corners, factors = rest if len(rest) > has_corners else (*rest, None)
        if output_size is None:
            output_size = [int(s * f) for s, f in zip(input.shape[2:], factors, strict=True)]
        scales = [] if factors is None else [float(f) for f in factors]
        return getattr(_ops, f"{name}{n}d")(input, [*output_size], *corners, *scales)

    return call


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not train or input.numel() == 0:
        return input
    if p == 1:
        return _ops.mul(input, _ops.zeros([], dtype=input.dtype, device=input.device))
    noise = _ops.empty_like(input)
    noise.bernoulli_(1 - p)
    noise.div_(1 - p)
    return _ops.mul(input, noise)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Tensor:
    return _ops.native_layer_norm(input, list(normalized_shape), weight, bias, eps)[0]


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:
    n, c = input.shape[0], input.shape[1]
    rest = math.prod(input.shape[2:])
    return _ops.native_group_norm(input, weight, bias, n, c, rest, num_groups, eps)[0]


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    return _ops.native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def softmax(self: Tensor, dim: int, dtype: typing.Any = None) -> Tensor:
    if dtype is not None and dtype != self.dtype:
        return _ops.softmax(self.to(dtype), dim)
    return NotImplemented if _has_own_history(self) else _aten()._softmax.default(self, dim, False)


def log_softmax(self: Tensor, dim: int, dtype: typing.Any = None) -> Tensor:
    if dtype is not None and dtype != self.dtype:
        return _ops.log_softmax(self.to(dtype), dim)
    return NotImplemented if _has_own_history(self) else _aten()._log_softmax.default(self, dim, False)


_REDUCTIONS = ("none", "mean", "sum")


def nll_loss_nd(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100
) -> Tensor:
    if self.dim() not in (1, 2) or target.dim() > 1 or _has_own_history(self):
        return NotImplemented
    return _aten().nll_loss_forward.default(self, target, weight, reduction, ignore_index)[0]


def cross_entropy_loss(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    if self.dim() > 2 or label_smoothing != 0.0 or target.dtype.is_floating_point or _has_own_history(self):
        return NotImplemented
    scores = _aten()._log_softmax.default(self, 1 if self.dim() > 1 else 0, False)
    return _aten().nll_loss_forward.default(scores, target, weight, reduction, ignore_index)[0]


def _convolution(n: int, transposed: bool = False) -> typing.Any:
    def spread(value: typing.Any) -> list[int]:
        values = [value] if isinstance(value, int) else list(value)
        return values * n if len(values) == 1 else values

    def call(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: typing.Any = 1,
        padding: typing.Any = 0,
        dilation: typing.Any = 1,
        groups: int = 1,
    ) -> Tensor:
        if isinstance(padding, str) or input.dim() != n + 2:
            return NotImplemented
        return _ops.convolution(
            input, weight, bias, spread(stride), spread(padding), spread(dilation), False, [0] * n, groups
        )

    def call_transposed(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: typing.Any = 1,
        padding: typing.Any = 0,
        output_padding: typing.Any = 0,
        groups: int = 1,
        dilation: typing.Any = 1,
    ) -> Tensor:
        if input.dim() != n + 2:
            return NotImplemented
        return _ops.convolution(
            input, weight, bias, spread(stride), spread(padding), spread(dilation), True, spread(output_padding), groups
        )

    return call_transposed if transposed else call


def max_pool2d(
    self: Tensor,
    kernel_size: typing.Any,
    stride: typing.Any = (),
    padding: typing.Any = 0,
    dilation: typing.Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    args: list[typing.Any] = [
        self,
        kernel_size,
        list(stride) if stride else list(kernel_size),
        padding,
        dilation,
        ceil_mode,
    ]
    for default in (False, [1, 1], [0, 0], list(kernel_size)):
        if args[-1] not in (
            default,
            default[0] if isinstance(default, list) and default[0] != kernel_size else default,
        ):
            break
        args.pop()
    return _ops.max_pool2d_with_indices(*args)[0]


def adaptive_avg_pool2d(self: Tensor, output_size: Sequence[int]) -> Tensor:
    if list(output_size) == [1, 1] and self.dim() == 4:
        return _ops.mean(self, [-1, -2], True)
    return NotImplemented


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    is_plain = query.dim() == key.dim() == value.dim() == 4 and query.device.type == "cpu" and not enable_gqa
    if not is_plain or dropout_p != 0.0 or attn_mask is not None or _has_own_history(query, key, value):
        return NotImplemented
    named = {} if scale is None else {"scale": scale}
    args: list[typing.Any] = [query, key, value]
    if is_causal:
        args += [0.0, True]
    return _aten()._scaled_dot_product_flash_attention_for_cpu.default(*args, **named)[0]


def view_as(self: Tensor, other: Tensor) -> Tensor:
    return _ops.view(self, list(other.shape))


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    return _ops.expand(self, list(other.shape))


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    return reshape(self, list(other.shape))


def type_as(self: Tensor, other: Tensor) -> Tensor:
    return self.to(other.dtype)


def narrow(self: Tensor, dim: int, start: typing.Any, length: int) -> Tensor:
    n = self.dim()
    if isinstance(start, Tensor) or not -n <= dim < n or not -self.shape[dim] <= start <= self.shape[dim] or length < 0:
        return NotImplemented
    begin = start + self.shape[dim] if start < 0 else start
    return _ops.slice(self, dim, begin, begin + length) if begin + length <= self.shape[dim] else NotImplemented


def square(self: Tensor) -> Tensor:
    return _ops.pow(self, 2)


def broadcast_to(self: Tensor, size: Sequence[int]) -> Tensor:
    return _ops.expand(self, list(size))


def max_other(self: Tensor, other: Tensor) -> Tensor:
    return _ops.maximum(self, other)


def min_other(self: Tensor, other: Tensor) -> Tensor:
    return _ops.minimum(self, other)


def movedim(self: Tensor, source: typing.Any, destination: typing.Any) -> Tensor:
    n = self.dim()
    sources = [source] if isinstance(source, int) else list(source)
    destinations = [destination] if isinstance(destination, int) else list(destination)
    if len(sources) != len(destinations) or not all(-n <= d < n for d in (*sources, *destinations)):
        return NotImplemented
    sources, destinations = [d % n for d in sources], [d % n for d in destinations]
    if len({*sources}) < len(sources) or len({*destinations}) < len(sources):
        return NotImplemented
    order = [-1] * n
    for s, d in zip(sources, destinations, strict=True):
        order[d] = s
    rest = iter([d for d in range(n) if d not in sources])
    return _ops.permute(self, [next(rest) if d == -1 else d for d in order])


def swapaxes(self: Tensor, axis0: int, axis1: int) -> Tensor:
    return _ops.transpose(self, axis0, axis1)


def unflatten(self: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    d = dim + self.dim() if dim < 0 else dim
    return _ops.view(self, [*self.shape[:d], *_infer(self.shape[d], sizes), *self.shape[d + 1 :]])


def _infer(n: int, sizes: Sequence[int]) -> list[int]:
    known = math.prod(s for s in sizes if s != -1)
    return [n // known if s == -1 and known else s for s in sizes]


_var, _var_over = _spread("var")
_std, _std_over = _spread("std")
_var_mean, _var_mean_over = _spread("var_mean")
_std_mean, _std_mean_over = _spread("std_mean")

#: Compositions by the name of the overload, or of the operator.
TABLE: dict[str, typing.Any] = {
    "linear": linear,
    "matmul": matmul,
    "linalg_matmul": matmul,
    "reshape": reshape,
    "flatten.using_ints": flatten,
    "contiguous": contiguous,
    "chunk": chunk,
    "var": _var,
    "var.dim": _var_over,
    "std": _std,
    "std.dim": _std_over,
    "var_mean": _var_mean,
    "var_mean.dim": _var_mean_over,
    "std_mean": _std_mean,
    "std_mean.dim": _std_mean_over,
    "dropout": dropout,
    "layer_norm": layer_norm,
    "group_norm": group_norm,
    "batch_norm": batch_norm,
    "softmax.int": softmax,
    "log_softmax.int": log_softmax,
    "cross_entropy_loss": cross_entropy_loss,
    "nll_loss_nd": nll_loss_nd,
    "nll_loss": nll_loss_nd,
    "conv1d": _convolution(1),
    "conv2d": _convolution(2),
    "conv3d": _convolution(3),
    "conv_transpose1d": _convolution(1, transposed=True),
    "conv_transpose2d.input": _convolution(2, transposed=True),
    "conv_transpose3d.input": _convolution(3, transposed=True),
    "max_pool2d": max_pool2d,
    "adaptive_avg_pool2d": adaptive_avg_pool2d,
    "scaled_dot_product_attention": scaled_dot_product_attention,
    "view_as": view_as,
    "expand_as": expand_as,
    "reshape_as": reshape_as,
    "type_as": type_as,
    "narrow": narrow,
    "square": square,
    "broadcast_to": broadcast_to,
    "max.other": max_other,
    "min.other": min_other,
    "movedim.int": movedim,
    "movedim.intlist": movedim,
    "moveaxis.int": movedim,
    "moveaxis.intlist": movedim,
    "swapaxes": swapaxes,
    "swapdims": swapaxes,
    "unflatten.int": unflatten,
}

TABLE |= {
    method: _cast(name)
    for method, name in {
        "double": "float64", "float": "float32", "half": "float16", "bfloat16": "bfloat16", "int": "int32",
        "long": "int64", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
    }.items()
}  # fmt: skip


def _softmax_call(name: str) -> typing.Any:
    return lambda self, dim, dtype=None: (name, (self, dim, False))


#: Operators that PyTorch calls otherwise below autograd, as one call: its name and arguments.
OPERATORS: dict[str, typing.Any] = {
    "softmax.int": _softmax_call("_softmax"),
    "log_softmax.int": _softmax_call("_log_softmax"),
}
