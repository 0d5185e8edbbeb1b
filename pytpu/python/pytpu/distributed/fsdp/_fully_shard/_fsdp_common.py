"""The place where programs look for descriptions of meshes."""

from .._mesh import (
    DataParallelMeshInfo as DataParallelMeshInfo,
    FSDPMeshInfo as FSDPMeshInfo,
    HSDPMeshInfo as HSDPMeshInfo,
    ShardPlacementResult as ShardPlacementResult,
)
