"""`torch.distributed.fsdp`: modules whose parameters are sharded over the ranks."""

from ._module import (
    FSDPModule as FSDPModule,
    GradientReductionHandle as GradientReductionHandle,
    UnshardHandle as UnshardHandle,
    fully_shard as fully_shard,
    register_fsdp_forward_method as register_fsdp_forward_method,
    share_comm_ctx as share_comm_ctx,
)
from ._policies import (
    CPUOffloadPolicy as CPUOffloadPolicy,
    DataParallelMeshDims as DataParallelMeshDims,
    MixedPrecisionPolicy as MixedPrecisionPolicy,
    OffloadPolicy as OffloadPolicy,
)
from .api import (
    BackwardPrefetch as BackwardPrefetch,
    CPUOffload as CPUOffload,
    FullOptimStateDictConfig as FullOptimStateDictConfig,
    FullStateDictConfig as FullStateDictConfig,
    LocalOptimStateDictConfig as LocalOptimStateDictConfig,
    LocalStateDictConfig as LocalStateDictConfig,
    MixedPrecision as MixedPrecision,
    OptimStateDictConfig as OptimStateDictConfig,
    ShardedOptimStateDictConfig as ShardedOptimStateDictConfig,
    ShardedStateDictConfig as ShardedStateDictConfig,
    ShardingStrategy as ShardingStrategy,
    StateDictConfig as StateDictConfig,
    StateDictSettings as StateDictSettings,
    StateDictType as StateDictType,
)
from .fully_sharded_data_parallel import (
    FullyShardedDataParallel as FullyShardedDataParallel,
    OptimStateKeyType as OptimStateKeyType,
)
