"""Reductions of gradients for `FullyShardedDataParallel.register_comm_hook`.

A function gets a state, the gradients of this rank, and the memory for its part of their means. Without shards it gets
no such memory, and writes the means into the gradients.
"""

from __future__ import annotations

from .... import Tensor, bfloat16, float16, float32, no_grad
from ... import ReduceOp, all_reduce, reduce_scatter_tensor
from ...distributed_c10d import _get_default_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .... import dtype as _dtype
    from ...distributed_c10d import ProcessGroup

__all__ = [
    "DefaultState",
    "LowPrecisionState",
    "allreduce_hook",
    "bf16_compress_hook",
    "fp16_compress_hook",
    "reduce_scatter_hook",
]


class DefaultState:
    """The ranks that reduce gradients.

    Sums of 16-bit numbers may be too large, and means of them too small. So gradients are divided by about the root of
    the number of ranks before they are added, and by the rest afterwards.

    Args:
        process_group: the ranks. The default are all.

    Raises:
        ValueError: if `process_group` is `None`, and there is no default group.
    """

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        if process_group is None:
            process_group = _get_default_group()
        self.process_group = process_group
        self.world_size = process_group.size()
        before = 1
        while before * before < self.world_size and self.world_size % (2 * before) == 0:
            before *= 2
        self.gradient_predivide_factor = float(before)
        self.gradient_postdivide_factor = self.world_size / before


class LowPrecisionState(DefaultState):
    """The ranks that reduce gradients in 16 bits, and the dtype of the parameters.

    Args:
        process_group: the ranks. The default are all.
        parameter_type: the dtype that gradients get afterwards.
    """

    def __init__(self, process_group: ProcessGroup | None = None, parameter_type: _dtype = float32) -> None:
        super().__init__(process_group)
        self.parameter_type = parameter_type


def allreduce_hook(state: DefaultState, grad: Tensor) -> None:
    """Write the means of all ranks into the gradients of this one.

    Args:
        state: the ranks.
        grad: the gradients.
    """
    with no_grad():
        grad.div_(state.gradient_predivide_factor)
        all_reduce(grad, ReduceOp.SUM, state.process_group)
        grad.div_(state.gradient_postdivide_factor)


def reduce_scatter_hook(state: DefaultState, grad: Tensor, output: Tensor) -> None:
    """Write this rank's part of the means of all ranks.

    Args:
        state: the ranks.
        grad: the gradients `(ranks * n)` of this rank.
        output: memory for the part `(n,)`.
    """
    with no_grad():
        grad.div_(state.gradient_predivide_factor)
        reduce_scatter_tensor(output, grad, ReduceOp.SUM, state.process_group)
        output.div_(state.gradient_postdivide_factor)


def _in_16_bits(dtype: _dtype, state: LowPrecisionState, grad: Tensor, output: Tensor | None) -> None:
    with no_grad():
        small = grad.to(dtype)
        if output is None:
            allreduce_hook(state, small)
            grad.copy_(small)
        else:
            part = output.to(dtype)
            reduce_scatter_hook(state, small, part)
            output.copy_(part)


def fp16_compress_hook(state: LowPrecisionState, grad: Tensor, output: Tensor | None = None) -> None:
    """Reduce gradients as `float16`.

    Args:
        state: the ranks.
        grad: the gradients of this rank.
        output: memory for this rank's part of the means. Without it, the means are written into `grad`.
    """
    _in_16_bits(float16, state, grad, output)


def bf16_compress_hook(state: LowPrecisionState, grad: Tensor, output: Tensor | None = None) -> None:
    """Reduce gradients as `bfloat16`. The arguments are those of `fp16_compress_hook`."""
    _in_16_bits(bfloat16, state, grad, output)
