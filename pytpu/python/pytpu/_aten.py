"""Operators of aten that no user calls, and that modes and programs of graphs know: computed by other operators."""

from __future__ import annotations

import math
import typing
from collections.abc import Sequence

from . import _C

Tensor = _C.Tensor
_ops = _C._ops

#: PyTorch's schemas by name.
SCHEMAS: dict[str, list[str]] = {
    name.partition("(")[0].partition(".")[0]: [name]
    for name in (
        "_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
        "_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
        "_local_scalar_dense(Tensor self) -> Scalar",
        "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
        "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
        "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
        "lift(Tensor self) -> Tensor",
        "lift_fresh(Tensor(a) self) -> Tensor(a)",
        "lift_fresh_copy(Tensor self) -> Tensor",
        "scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor",
        "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> "
        "(Tensor output, Tensor total_weight)",
        "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, "
        "SymInt ignore_index, Tensor total_weight) -> Tensor",
        "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, "
        "SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
        "bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, "
        "Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        'gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor',
        "silu_backward(Tensor grad_output, Tensor self) -> Tensor",
        "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
        "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
        "tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
        "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, "
        "bool scale_grad_by_freq) -> Tensor",
        "select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
        "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> "
        "Tensor",
        "_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
        "record_stream(Tensor(a!) self, Stream s) -> ()",
    )
}


def _unsafe_view(self: Tensor, size: Sequence[int]) -> Tensor:
    return _ops.view(self, size)


def _reshape_alias(self: Tensor, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    return _ops.as_strided(self, size, stride)


def _local_scalar_dense(self: Tensor) -> typing.Any:
    before = _C._set_torch_dispatch_disabled(True)
    try:
        return self.item()
    finally:
        _C._set_torch_dispatch_disabled(before)


def _to_copy(
    self: Tensor,
    *,
    dtype: typing.Any = None,
    layout: typing.Any = None,
    device: typing.Any = None,
    pin_memory: typing.Any = None,
    non_blocking: bool = False,
    memory_format: typing.Any = None,
) -> Tensor:
    return self.to(device=device, dtype=dtype, non_blocking=non_blocking, copy=True)


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _ops.softmax(self, dim, dtype=_C.float32 if half_to_float else None)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _ops.log_softmax(self, dim, dtype=_C.float32 if half_to_float else None)


def lift(self: Tensor) -> Tensor:
    return self


lift_fresh = lift


def lift_fresh_copy(self: Tensor) -> Tensor:
    return self.clone()


def scalar_tensor(
    s: typing.Any,
    *,
    dtype: typing.Any = None,
    layout: typing.Any = None,
    device: typing.Any = None,
    pin_memory: typing.Any = None,
) -> Tensor:
    return _C.tensor(s, dtype=_C.get_default_dtype() if dtype is None else dtype, device=device)


def _counted(self: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the classes of rows, those that are ignored replaced, the rows that count, and their weights."""
    counts = target != ignore_index
    classes = target.where(counts, _C._ops.zeros_like(target))
    weights = counts.to(self.dtype) if weight is None else weight[classes] * counts
    return classes, counts, weights


def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    with_batch = self.dim() == 2
    reduced = ("none", "mean", "sum")[reduction]
    loss = _C._nn.nll_loss(self, target, weight=weight, reduction=reduction, ignore_index=ignore_index)
    if reduced == "none" and with_batch:
        return loss, self.new_zeros([])
    return loss, _counted(self, target, weight, ignore_index)[2].sum()


def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    classes, _, weights = _counted(self, target, weight, ignore_index)
    share = -weights * grad_output
    if reduction == 1:
        share = share / total_weight
    return _ops.zeros_like(self).scatter(-1, classes.unsqueeze(-1), share.unsqueeze(-1))


def _gradients(
    function: typing.Any, operands: Sequence[typing.Any], grad: Tensor, mask: Sequence[bool]
) -> list[typing.Any]:
    """Return the gradients of the operands whose bit is set."""
    from . import autograd

    leaves = [
        x.detach().requires_grad_(wanted) if isinstance(x, Tensor) else x
        for x, wanted in zip(operands, mask, strict=True)
    ]
    asked = [x for x, wanted in zip(leaves, mask, strict=True) if wanted and isinstance(x, Tensor)]
    if not asked:
        return [None] * len(leaves)
    with autograd.enable_grad():
        y = function(*leaves)
    found = iter(autograd.grad(y, asked, grad))
    return [next(found) if wanted and isinstance(x, Tensor) else None for x, wanted in zip(leaves, mask, strict=True)]


def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: typing.Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[typing.Any, ...]:
    def convolve(x: Tensor, w: Tensor) -> Tensor:
        return _ops.convolution(x, w, None, stride, padding, dilation, transposed, output_padding, groups)

    x, w = _gradients(convolve, [input, weight], grad_output, output_mask[:2])
    bias = grad_output.sum([0, *range(2, grad_output.dim())]) if output_mask[2] else None
    return x, w, bias


def native_layer_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[typing.Any, ...]:
    def norm(x: Tensor, w: Tensor | None, b: Tensor | None) -> Tensor:
        return _ops.layer_norm(x, normalized_shape, w, b)

    return tuple(_gradients(norm, [input, weight, bias], grad_out, output_mask))


def gelu_backward(grad_output: Tensor, self: Tensor, *, approximate: str = "none") -> Tensor:
    return _gradients(lambda x: _ops.gelu(x, approximate=approximate), [self], grad_output, [True])[0]


def silu_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    return _gradients(_ops.silu, [self], grad_output, [True])[0]


def threshold_backward(grad_output: Tensor, self: Tensor, threshold: typing.Any) -> Tensor:
    return _ops.where(self <= threshold, _ops.zeros_like(grad_output), grad_output)


def sigmoid_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    return grad_output * (1 - output) * output


def tanh_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    return grad_output * (1 - output * output)


def embedding_dense_backward(
    grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    flat = indices.reshape(-1)
    rows = grad_output.reshape(math.prod(indices.shape), grad_output.shape[-1])
    if scale_grad_by_freq:
        rows = rows / flat.bincount(minlength=num_weights)[flat].to(rows.dtype).unsqueeze(-1)
    if padding_idx >= 0:
        rows = rows * (flat != padding_idx).to(rows.dtype).unsqueeze(-1)
    return rows.new_zeros([num_weights, rows.shape[-1]]).index_add(0, flat, rows)


def select_backward(grad_output: Tensor, input_sizes: Sequence[int], dim: int, index: int) -> Tensor:
    return grad_output.new_zeros(input_sizes).select_scatter(grad_output, dim, index)


def slice_backward(
    grad_output: Tensor, input_sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Tensor:
    return grad_output.new_zeros(input_sizes).slice_scatter(grad_output, dim, start, end, step)


def _adaptive_avg_pool2d(self: Tensor, output_size: Sequence[int]) -> Tensor:
    return _C._nn.adaptive_avg_pool2d(self, output_size)


def record_stream(self: Tensor, s: typing.Any) -> None:
    return None
