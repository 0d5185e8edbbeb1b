"""The chunks that this rank has of a tensor that is spread over ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytpu as torch

from ..tensor import DTensor
from .metadata import ChunkStorageMetadata, MetadataIndex

if TYPE_CHECKING:
    from pytpu import Tensor


def has_chunks(obj: object) -> bool:
    """Return whether an object is a sharded tensor: a `DTensor`, or one with the methods of `_Checkpointable`."""
    return hasattr(obj, "__create_chunk_list__") or isinstance(obj, DTensor)


def chunk_list(tensor: Any) -> list[ChunkStorageMetadata]:
    """Return the chunks of this rank. It is empty if the rank is not in the mesh of the tensor.

    Raises:
        ValueError: If the value of a `DTensor` is a sum that is still to be computed.
    """
    if hasattr(tensor, "__create_chunk_list__"):
        return tensor.__create_chunk_list__()
    if tensor.device_mesh.get_coordinate() is None:
        return []
    if any(placement.is_partial() for placement in tensor.placements):
        raise ValueError(f"a DTensor with the placements {tensor.placements} cannot be saved: redistribute it first")
    from ..tensor._utils import compute_local_shape_and_global_offset

    sizes, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return [ChunkStorageMetadata(offsets=torch.Size(offsets), sizes=torch.Size(sizes))]


def shard(tensor: Any, index: MetadataIndex) -> Tensor:
    """Return the memory of a chunk of this rank.

    Raises:
        ValueError: If a `DTensor` does not have the chunk.
    """
    if hasattr(tensor, "__get_tensor_shard__"):
        return tensor.__get_tensor_shard__(index)
    (own,) = chunk_list(tensor) or (None,)
    if own is None or (index.offset is not None and index.offset != own.offsets):
        raise ValueError(f"Could not find shard at '{index.offset}' for FQN: '{index.fqn}'")
    return tensor._local_tensor
