"""``torch.distributed.optim``: optimizers over several processes. ``DistributedOptimizer`` needs RPC, and is absent."""

from ..._absent import absent_class, absent_function
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

DistributedOptimizer = absent_class("torch.distributed.optim.DistributedOptimizer", "RPC is not implemented")
_apply_optimizer_in_backward = absent_function(
    "torch.distributed.optim._apply_optimizer_in_backward", "use Tensor.register_post_accumulate_grad_hook"
)

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
