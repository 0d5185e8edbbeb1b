"""Parameters whose parts on other mesh dimensions are plain tensors, with types by the package `spmd_types`.

Such a program computes with the parts of tensor parallel parameters itself. Each part says by its types how it belongs
to the whole, so `fully_shard` makes sharded tensors of the whole, and lets the module compute with the part.
"""

from __future__ import annotations

import sys

from ..tensor import Placement, Replicate, Shard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ... import Tensor
    from ..device_mesh import DeviceMesh
    from ..distributed_c10d import ProcessGroup
    from ._policies import DataParallelMeshDims


class AnnotatedPart:
    """The placements that the types of a part say.

    Args:
        part: the part of this rank.
        mesh: the mesh of all kinds of parallelism.
        dims: the dimensions of `mesh` that are data parallel.
        types: the package `spmd_types`.

    Raises:
        NotImplementedError: if the part is a summand, or several mesh dimensions divide one dimension of the tensor.
    """

    def __init__(self, part: Tensor, mesh: DeviceMesh, dims: DataParallelMeshDims, types: Any) -> None:
        #: What the program has written on the part.
        self.attributes = {name: value for name, value in part.__dict__.items() if name != "_is_param"}
        #: The groups of ranks whose gradients are summands.
        self.summed: list[ProcessGroup] = []
        sizes, names, placements = list(part.shape), [], []
        used = (*dims.replicate_names, *dims.shard_names)
        for i, name in enumerate(mesh.mesh_dim_names or ()):
            if name in used or mesh.size(i) == 1:
                continue
            group = mesh.get_group(name)
            kind = types.get_axis_local_type(part, group)
            placement: Placement = Replicate()
            if kind is types.V:
                dim = self._divided_dim(part, types.normalize_axis(group), types)
                if Shard(dim) in placements:
                    raise NotImplementedError(f"fully_shard: several mesh dimensions divide dimension {dim}")
                placement, sizes[dim] = Shard(dim), sizes[dim] * group.size()
            elif kind is types.R:
                self.summed.append(group)
            elif kind is not types.I:
                raise NotImplementedError(f"fully_shard: parameters of type {kind} on mesh dimension {name!r}")
            names.append(name)
            placements.append(placement)
        #: The mesh of the other kinds of parallelism, or `None` if they have one rank.
        self.mesh = mesh[tuple(names)] if names else None
        self.placements: tuple[Placement, ...] = tuple(placements)
        #: The sizes of the whole.
        self.sizes = tuple(sizes)

    @staticmethod
    def _divided_dim(part: Tensor, axis: Any, types: Any) -> int:
        for dim, entry in enumerate(types.get_partition_spec(part) or ()):
            if axis in (entry if isinstance(entry, tuple) else (entry,)):
                return dim
        raise NotImplementedError("fully_shard: a parameter varies between ranks, and no dimension of it is divided")


def read_annotations(part: Tensor, mesh: DeviceMesh, dims: DataParallelMeshDims | None) -> AnnotatedPart | None:
    """Return the placements of a plain parameter, or `None` if it has no types."""
    types: Any = sys.modules.get("spmd_types")
    if dims is None or types is None or not types.has_local_type(part):
        return None
    return AnnotatedPart(part, mesh, dims, types)
