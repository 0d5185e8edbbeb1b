"""Descriptions of sharded tensors."""

from __future__ import annotations

import dataclasses

from ... import Size, dtype as _dtype
from ..device_mesh import DeviceMesh
from .placement_types import Placement

__all__ = ["DTensorSpec", "TensorMeta"]


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

    def is_replicated(self) -> bool:
        """Return whether each rank has the whole tensor."""
        return all(p.is_replicate() for p in self.placements)
