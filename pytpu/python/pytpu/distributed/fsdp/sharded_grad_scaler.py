"""`torch.distributed.fsdp.sharded_grad_scaler`: factors of losses that are the same on all ranks."""

from __future__ import annotations

from ...amp import GradScaler
from .. import ReduceOp, all_reduce

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..distributed_c10d import ProcessGroup

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A `GradScaler` for sharded parameters. If a gradient of a rank is infinite or NaN, all ranks leave the step out.

    Args:
        device: the type of device.
        init_scale: the first factor.
        backoff_factor: what the factor is multiplied with after an infinite gradient.
        growth_factor: what it is multiplied with after `growth_interval` steps without one.
        growth_interval: a number of steps.
        enabled: whether the scaler does anything.
        process_group: the ranks. The default is all.
    """

    def __init__(
        self,
        device: str = "tpu",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: ProcessGroup | None = None,
    ) -> None:
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def _unscale(self, optimizer: Any, allow_fp16: bool) -> Any:
        found = super()._unscale(optimizer, allow_fp16)
        for overflow in found.values():
            all_reduce(overflow, ReduceOp.MAX, self.process_group)
        return found
