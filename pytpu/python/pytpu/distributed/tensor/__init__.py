"""`torch.distributed.tensor`: tensors that are divided over the ranks of a mesh."""

from ...serialization import add_safe_globals
from .._mesh_layout import _FlatLayout, _MeshLayout
from ..device_mesh import DeviceMesh as DeviceMesh, init_device_mesh as init_device_mesh
from ._api import (
    DTensor,
    _rebuilt,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    linspace,
    logspace,
    ones,
    rand,
    randn,
    zeros,
)
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randn",
    "zeros",
]

# What the pickle of a sharded tensor names.
add_safe_globals(
    [DTensor, DeviceMesh, Partial, Replicate, Shard, _FlatLayout, _MeshLayout, _StridedShard, _rebuilt]  # type: ignore[list-item]
)
