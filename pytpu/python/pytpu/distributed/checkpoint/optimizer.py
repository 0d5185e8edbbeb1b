"""``torch.distributed.checkpoint.optimizer``: a function for states of the class ``FullyShardedDataParallel``."""

from ..._absent import absent_function

__all__ = ["load_sharded_optimizer_state_dict"]

load_sharded_optimizer_state_dict = absent_function(
    "torch.distributed.checkpoint.optimizer.load_sharded_optimizer_state_dict",
    "use get_optimizer_state_dict and load instead",
)
