"""The older name of ``torch.distributed.tensor``."""

from ..tensor import (
    DeviceMesh as DeviceMesh,
    DTensor as DTensor,
    Partial as Partial,
    Placement as Placement,
    Replicate as Replicate,
    Shard as Shard,
    distribute_module as distribute_module,
    distribute_tensor as distribute_tensor,
    empty as empty,
    full as full,
    init_device_mesh as init_device_mesh,
    linspace as linspace,
    logspace as logspace,
    ones as ones,
    rand as rand,
    randn as randn,
    zeros as zeros,
)
