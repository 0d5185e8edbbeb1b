"""The part of a mesh that parameters are sharded over."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from ..device_mesh import DeviceMesh
    from ..distributed_c10d import ProcessGroup
    from ..tensor import Shard


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
    """How a parameter is sharded: a result of ``shard_placement_fn``.

    Args:
        placement: the dimension of the parameter. ``None`` is the first.
        mesh_info: the mesh for this parameter.
    """

    placement: Shard | None
    mesh_info: FSDPMeshInfo


def _get_mesh_info(mesh: DeviceMesh, dp_mesh_dims: object = None) -> FSDPMeshInfo:
    """Return the description of a mesh with one or two dimensions."""
    if dp_mesh_dims is not None:
        raise NotImplementedError(
            "fully_shard: dp_mesh_dims is not implemented. Pass the data parallel part of the mesh."
        )
    if mesh.ndim == 1:
        return FSDPMeshInfo(mesh, shard_mesh_dim=0)
    if mesh.ndim != 2:
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    return HSDPMeshInfo(mesh, shard_mesh_dim=1, replicate_mesh_dim=0)
