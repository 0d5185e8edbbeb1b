"""Hooks that step a `ZeroRedundancyOptimizer` in backward are not implemented."""

from ...._absent import absent_class

hook_with_zero_step = absent_class(
    "torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook.hook_with_zero_step", "it is not implemented yet"
)
hook_with_zero_step_interleaved = absent_class(
    "torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook.hook_with_zero_step_interleaved",
    "it is not implemented yet",
)
