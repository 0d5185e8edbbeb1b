"""``torch.distributed.fsdp``: names of modules that are spread over processes. Nothing is an instance of them."""

from ..._absent import absent_class, absent_function
from ...nn import Module
from .. import _WHY

_HERE = "torch.distributed.fsdp"
FullyShardedDataParallel = absent_class(f"{_HERE}.fully_sharded_data_parallel.FullyShardedDataParallel", _WHY, Module)
for _name in (
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FSDPModule", "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy", "OffloadPolicy",
    "OptimStateDictConfig",
    "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType", "UnshardHandle",
):  # fmt: skip
    globals()[_name] = absent_class(f"{_HERE}.{_name}", _WHY)
del _name
fully_shard = absent_function(f"{_HERE}.fully_shard", _WHY)
register_fsdp_forward_method = absent_function(f"{_HERE}.register_fsdp_forward_method", _WHY)
