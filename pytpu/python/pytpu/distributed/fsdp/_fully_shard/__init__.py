"""The names of ``torch.distributed.fsdp`` that belong to `fully_shard`."""

from .._module import (
    FSDPModule as FSDPModule,
    UnshardHandle as UnshardHandle,
    fully_shard as fully_shard,
    register_fsdp_forward_method as register_fsdp_forward_method,
    share_comm_ctx as share_comm_ctx,
)
from .._policies import (
    CPUOffloadPolicy as CPUOffloadPolicy,
    DataParallelMeshDims as DataParallelMeshDims,
    MixedPrecisionPolicy as MixedPrecisionPolicy,
    OffloadPolicy as OffloadPolicy,
)
