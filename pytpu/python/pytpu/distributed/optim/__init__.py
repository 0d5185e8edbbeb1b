"""`torch.distributed.optim`: optimizers over several processes. `DistributedOptimizer` needs RPC, and is absent."""

from .apply_optimizer_in_backward import (
    _apply_optimizer_in_backward as _apply_optimizer_in_backward,
    _get_in_backward_optimizers as _get_in_backward_optimizers,
)
from .named_optimizer import _NamedOptimizer as _NamedOptimizer
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = [
    "PostLocalSGDOptimizer",
    "ZeroRedundancyOptimizer",
]
