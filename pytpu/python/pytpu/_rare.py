"""Rarely used names of ``torch``."""

from __future__ import annotations

import enum

from . import _C

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from pytpu import Tensor


class AcceleratorError(RuntimeError):
    """An error of an accelerator. The device ``tpu`` raises ``RuntimeError``."""


class Tag(enum.IntEnum):
    """Properties of an operator, given at registration. Tags are accepted and have no effect."""

    core, cudagraph_unsafe, data_dependent_output, dynamic_output_shape, flexible_layout, generated, inplace_view, \
        maybe_aliasing_or_mutating, needs_contiguous_strides, needs_exact_strides, needs_fixed_stride_order, \
        nondeterministic_bitwise, nondeterministic_seeded, pointwise, pt2_compliant_tag, reduction, \
        view_copy = range(17)  # fmt: skip


def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """Return the mean and the biased variance of each channel, and move the running statistics towards them.

    Args:
        input: ``(n, c, ...)``.
        running_mean, running_var: ``(c,)`` or ``None``; the variance that is kept is the unbiased one.
        momentum: the weight of the new values.
    """
    dims = [d for d in range(input.dim()) if d != 1]
    count = input.numel() // input.shape[1]
    variance, mean = _C._ops.var_mean(input, dims, correction=0)
    with _grad_off():
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        if running_var is not None:
            running_var.mul_(1 - momentum).add_(variance * (count / max(count - 1, 1)), alpha=momentum)
    return mean, variance


def _grad_off():
    from .autograd.grad_mode import no_grad

    return no_grad()
