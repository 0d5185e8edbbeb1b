"""``torch.distributed.optim``: optimizers over several processes. ``DistributedOptimizer`` needs RPC, and is absent."""

from ..._absent import absent_class
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

DistributedOptimizer = absent_class("torch.distributed.optim.DistributedOptimizer", "RPC is not implemented")

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
