"""The older name of the place of ``DTensor``."""

from ..tensor import (
    DTensor as DTensor,
    Partial as Partial,
    Placement as Placement,
    Replicate as Replicate,
    Shard as Shard,
    distribute_module as distribute_module,
    distribute_tensor as distribute_tensor,
    empty as empty,
    full as full,
    linspace as linspace,
    logspace as logspace,
    ones as ones,
    rand as rand,
    randn as randn,
    zeros as zeros,
)
