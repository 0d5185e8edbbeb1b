"""Descriptions of sharded tensors."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from ... import Size, dtype as _dtype
from ..device_mesh import DeviceMesh
from .placement_types import Placement, Shard

__all__ = ["DTensorSpec", "ShardOrderEntry", "TensorMeta"]


class ShardOrderEntry(NamedTuple):
    """A dimension of a tensor, and the mesh dimensions that divide it, in their order."""

    tensor_dim: int
    mesh_dims: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TensorMeta:
    """Sizes, strides and dtype of a whole tensor."""

    shape: Size
    stride: tuple[int, ...]
    dtype: _dtype


@dataclasses.dataclass(frozen=True)
class DTensorSpec:
    """A mesh, the placement of a tensor along each of its dimensions, and the description of the whole tensor."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta | None = None

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.mesh

    @property
    def shape(self) -> Size:
        """The sizes of the whole tensor."""
        if self.tensor_meta is None:
            raise ValueError("tensor_meta is not set")
        return self.tensor_meta.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions of the whole tensor."""
        return len(self.shape)

    @property
    def shard_order(self) -> tuple[ShardOrderEntry, ...]:
        """The mesh dimensions that divide each dimension of the tensor, from the outer to the inner one."""
        divided: dict[int, list[int]] = {}
        for mesh_dim, placement in enumerate(self.placements):
            if isinstance(placement, Shard):
                divided.setdefault(placement.dim, []).append(mesh_dim)
        return tuple(ShardOrderEntry(dim, tuple(divided[dim])) for dim in sorted(divided))

    def is_replicated(self) -> bool:
        """Return whether each rank has the whole tensor."""
        return all(p.is_replicate() for p in self.placements)
