"""The part of a mesh that parameters are sharded over."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..device_mesh import DeviceMesh
    from ..distributed_c10d import ProcessGroup
    from ..tensor import DTensor, Placement, Shard
    from ._policies import DataParallelMeshDims


@dataclass(eq=False)
class DataParallelMeshInfo:
    """A mesh, and its dimensions along which parameters are sharded and replicated.

    Args:
        mesh: the mesh.
        shard_mesh_dim: the dimension along which parameters are sharded.
        replicate_mesh_dim: the dimension along which they are replicated, if there is one.
    """

    mesh: DeviceMesh
    shard_mesh_dim: int | None = None
    replicate_mesh_dim: int | None = None

    def __post_init__(self) -> None:
        if self.shard_mesh_dim is None and self.replicate_mesh_dim is None:
            raise AssertionError("At least one of shard_mesh_dim and replicate_mesh_dim must not be None")


@dataclass(eq=False)
class FSDPMeshInfo(DataParallelMeshInfo):
    """A mesh with a dimension along which parameters are sharded."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shard_mesh_dim is None:
            raise AssertionError("Expects non-None shard_mesh_dim")
        self.shard_mesh_size: int = self.mesh.size(self.shard_mesh_dim)
        self.shard_process_group: ProcessGroup = self.mesh.get_group(self.shard_mesh_dim)
        self.shard_mesh_rank: int = self.shard_process_group.rank()

    @property
    def replicas(self) -> ProcessGroup | None:
        """The group of ranks that have the same shard."""
        return None


@dataclass(eq=False)
class HSDPMeshInfo(FSDPMeshInfo):
    """A mesh with one dimension along which parameters are sharded, and one along which they are replicated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replicate_mesh_dim is None:
            raise AssertionError("Expects non-None replicate_mesh_dim")
        self.replicate_process_group: ProcessGroup = self.mesh.get_group(self.replicate_mesh_dim)

    @property
    def replicas(self) -> ProcessGroup | None:
        """The group of ranks that have the same shard."""
        return self.replicate_process_group


@dataclass
class ShardPlacementResult:
    """How a parameter is sharded: a result of `shard_placement_fn`.

    Args:
        placement: the dimension of the parameter. `None` is the first.
        mesh_info: the mesh for this parameter.
    """

    placement: Shard | None
    mesh_info: FSDPMeshInfo


def data_parallel_part(mesh: DeviceMesh, dims: DataParallelMeshDims) -> DeviceMesh:
    """Return the dimensions of a mesh along which parameters are replicated and sharded, one of each kind.

    Raises:
        ValueError: if a dimension has no such name.
        NotImplementedError: if parameters are not sharded.
    """
    names = mesh.mesh_dim_names or ()
    for name in (*dims.replicate_names, *dims.shard_names):
        if name not in names:
            raise ValueError(f"dp_mesh_dims: {name!r} is no dimension of the mesh, which has {names}")
    if not dims.shard_names:
        raise NotImplementedError("fully_shard: dp_mesh_dims without a dimension to shard on is not implemented")
    parts = [
        mesh[kind] if len(kind) == 1 else mesh[kind]._flatten()
        for kind in (dims.replicate_names, dims.shard_names)
        if kind
    ]
    return parts[0] if len(parts) == 1 else mesh._concatenate(parts)


def other_part(parameter: DTensor, dims: DataParallelMeshDims) -> tuple[DeviceMesh | None, tuple[Placement, ...]]:
    """Return the part of a parameter's mesh that is not data parallel, and the placements there.

    Args:
        parameter: a parameter on the whole mesh.
        dims: the dimensions that are data parallel.

    Returns:
        `None` instead of a mesh if all its other dimensions have one rank.

    Raises:
        ValueError: if the parameter is sharded along a data parallel dimension.
    """
    mesh, used = parameter.device_mesh, (*dims.replicate_names, *dims.shard_names)
    names = mesh.mesh_dim_names or ()
    rest = []
    for i, (name, placement) in enumerate(zip(names, parameter.placements, strict=True)):
        if name in used and not placement.is_replicate():
            raise ValueError(f"dp_mesh_dims: expects Replicate() on dimension {name!r}, but got {placement}")
        if name not in used and mesh.size(i) > 1:
            rest.append((name, placement))
    if not rest:
        return None, ()
    return mesh[tuple(name for name, _ in rest)], tuple(placement for _, placement in rest)


def _get_mesh_info(mesh: DeviceMesh, dp_mesh_dims: DataParallelMeshDims | None = None) -> FSDPMeshInfo:
    """Return the description of a mesh with one or two data parallel dimensions."""
    if dp_mesh_dims is not None:
        mesh = data_parallel_part(mesh, dp_mesh_dims)
    if mesh.ndim == 1:
        return FSDPMeshInfo(mesh, shard_mesh_dim=0)
    if mesh.ndim != 2:
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    return HSDPMeshInfo(mesh, shard_mesh_dim=1, replicate_mesh_dim=0)
