"""Batch normalization over the batches of several processes."""

from __future__ import annotations

import pytpu as torch
from pytpu import distributed as dist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...distributed import ProcessGroup


class NormalizedOverRanks(torch.autograd.Function):
    """Normalize the channels of `x`, `(n, c, *)`, over the batches of all ranks of a group.

    `n` may differ between ranks, and may be 0. Statistics are computed in float32, or in the dtype of `x` if that is
    wider. Each rank sends `2 c + 1` numbers in forward, and `2 c` in backward.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, w: torch.Tensor | None, b: torch.Tensor | None, eps: float, group: ProcessGroup
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the result, and the mean and the unbiased variance of each channel."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        c, dims, shape = x.shape[1], _other_dims(x), _channel_shape(x)
        count = x.numel() // c if c else 0
        mean = wide.sum(dims) / max(count, 1)
        squares = (wide - mean.view(shape)).square().sum(dims)
        mean, squares, total = _combine(mean, squares, count, group)
        scale = (squares / total + eps).rsqrt()
        normalized = (wide - mean.view(shape)) * scale.view(shape)
        y = normalized if w is None else normalized * w.view(shape)
        y = y if b is None else y + b.view(shape)
        ctx.save_for_backward(normalized, scale, w, total)
        ctx.group, ctx.has_bias, ctx.dtype = group, b is not None, x.dtype
        variance = squares / (total - 1).clamp(min=1)
        ctx.mark_non_differentiable(mean, variance)
        return y.to(x.dtype), mean, variance

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, *_: Any) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients. Those of `w` and `b` are of the batch of this rank."""
        normalized, scale, w, total = ctx.saved_tensors
        g = g.to(normalized.dtype)
        dims, shape = _other_dims(g), _channel_shape(g)
        gb, gw = g.sum(dims), (g * normalized).sum(dims)
        gx = None
        if ctx.needs_input_grad[0]:
            sums = torch.cat([gb, gw])
            dist.all_reduce(sums, group=ctx.group)
            mean_g, mean_gw = (sums / total).chunk(2)
            gx = g - mean_g.view(shape) - normalized * mean_gw.view(shape)
            gx = (gx * (scale if w is None else scale * w).view(shape)).to(ctx.dtype)
        gw = None if w is None else gw.to(w.dtype)
        return gx, gw, gb if ctx.has_bias else None, None, None


def _other_dims(x: torch.Tensor) -> list[int]:
    return [0, *range(2, x.dim())]


def _channel_shape(x: torch.Tensor) -> list[int]:
    return [1, -1] + [1] * (x.dim() - 2)


def _combine(
    mean: torch.Tensor, squares: torch.Tensor, count: int, group: ProcessGroup
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the means, the sums of squared distances from them, and the count, of all ranks together."""
    own = torch.cat([mean, squares, mean.new_full((1,), count)])
    rows = own.new_empty((dist.get_world_size(group), own.numel()))
    dist.all_gather_into_tensor(rows, own.view(1, -1), group=group)
    c = mean.numel()
    means, all_squares, counts = rows[:, :c], rows[:, c : 2 * c], rows[:, 2 * c :]
    total = counts.sum()
    mean = (means * counts).sum(0) / total
    squares = (all_squares + counts * (means - mean).square()).sum(0)
    return mean, squares, total
