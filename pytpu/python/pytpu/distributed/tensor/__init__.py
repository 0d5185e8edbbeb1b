"""``torch.distributed.tensor``: tensors of which each rank of a mesh has a part."""

from ..device_mesh import DeviceMesh as DeviceMesh, init_device_mesh as init_device_mesh
from ._api import DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
from .placement_types import Partial, Placement, Replicate, Shard

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
    "ones",
    "rand",
    "randn",
    "zeros",
]
