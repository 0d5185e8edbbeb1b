"""Operators of aten that compute gradients and have no row in the op table: their schemas, and their functions.

Modes and graphs know them. Users do not call them.
"""

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
    )
}


def _count(self: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return three tensors: the class of each row (0 if it is ignored), whether it counts, and its weight."""
    counts = target != ignore_index
    classes = target.where(counts, _C._ops.zeros_like(target))
    weights = counts.to(self.dtype) if weight is None else weight[classes] * counts
    return classes, counts, weights


def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    classes, _, weights = _count(self, target, weight, ignore_index)
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
    outer = [*range(input.dim() - len(normalized_shape))]
    own = [*range(len(outer), input.dim())]
    normal = (input - mean) * rstd
    grad = grad_out if weight is None else grad_out * weight
    inner = grad - grad.mean(own, keepdim=True) - normal * (grad * normal).mean(own, keepdim=True)

    def over_rows(x: Tensor) -> Tensor:
        return x.sum(outer) if outer else x

    return (
        (inner * rstd).to(input.dtype) if output_mask[0] else None,
        over_rows(grad_out * normal) if output_mask[1] and weight is not None else None,
        over_rows(grad_out) if output_mask[2] and bias is not None else None,
    )


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
