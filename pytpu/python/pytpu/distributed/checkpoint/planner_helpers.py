"""``torch.distributed.checkpoint.planner_helpers``: the items of one value, and how chunks are intersected."""

from __future__ import annotations

import io
import itertools
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import pytpu as torch

from ..tensor import DTensor
from ._chunks import chunk_list, has_chunks, shard
from .metadata import (
    STATE_DICT_TYPE,
    STORAGE_TYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, ReadItem, SavePlan, TensorWriteData, WriteItem, WriteItemType
from .protocol import (
    _copy_checkpointable_tensor_metadata,
    _get_checkpointable_tensor_chunks,
    _is_checkpointable_tensor,
)
from .resharding import _check_shard_metadata_pair_overlap, _shards_get_overlap_region_wrt_saved_tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor

__all__ = ["create_read_items_for_chunk_list"]


# ---- plans that are sent only if they have changed


def _compare_save_plans(plan: SavePlan, other_plan: SavePlan) -> bool:
    """Return whether two plans have the same items."""
    return plan.usable == other_plan.usable and [_key(i) for i in plan.items] == [_key(i) for i in other_plan.items]


def _key(item: WriteItem) -> tuple[Any, ...]:
    data = item.tensor_data
    return item.type, item.index, item.index.index, None if data is None else (data.size, data.chunk)


def _contains_usable_plan(delta_plans: list[SavePlan]) -> bool:
    """Return whether a rank has sent a new plan."""
    return any(plan and plan.usable for plan in delta_plans)


def _merge_delta_local_plans(cached_plans: list[SavePlan], delta_plans: list[SavePlan]) -> list[SavePlan]:
    """Return the newest plan of each rank."""
    return [
        cached if delta and not delta.usable else delta for cached, delta in zip(cached_plans, delta_plans, strict=True)
    ]


# ---- items to write


def _create_chunk_from_tensor(tensor: Tensor) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(offsets=torch.Size([0] * tensor.dim()), sizes=tensor.size())


def _create_write_item_for_tensor(fqn: str, tensor: Tensor) -> WriteItem:
    chunk = _create_chunk_from_tensor(tensor)
    data = TensorWriteData(chunk, TensorProperties.create_from_tensor(tensor), tensor.size())
    return WriteItem(MetadataIndex(fqn, chunk.offsets), WriteItemType.TENSOR, tensor_data=data)


def _create_write_item_for_bytesio(fqn: str, bytes: Any) -> WriteItem:
    return WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)


def _write_items_of_chunks(fqn: str, tensor: Any) -> list[WriteItem]:
    """Return the items of the chunks that this rank has of a tensor."""
    items = []
    for i, chunk in enumerate(chunk_list(tensor)):
        index = MetadataIndex(fqn, chunk.offsets, i)
        properties = TensorProperties.create_from_tensor(shard(tensor, index))
        properties.requires_grad = tensor.requires_grad
        data = TensorWriteData(chunk, properties, tensor.size())
        items.append(WriteItem(index, WriteItemType.SHARD, tensor_data=data))
    return items


def _get_checkpointable_tensor_write_items(fqn: str, tensor: Any) -> list[WriteItem]:
    properties, size = TensorProperties.create_from_tensor(tensor), torch.Size(tensor.global_shape)
    return [
        WriteItem(
            MetadataIndex(fqn, chunk.offsets, i),
            WriteItemType.SHARD,
            tensor_data=TensorWriteData(chunk, properties, size),
        )
        for i, chunk in enumerate(_get_checkpointable_tensor_chunks(tensor))
    ]


def _create_write_items(fqn: str, object: Any) -> list[WriteItem]:
    """Return the items of one value that this rank could write."""
    if hasattr(object, "__create_write_items__"):
        return object.__create_write_items__(fqn, object)
    if has_chunks(object):
        return _write_items_of_chunks(fqn, object)
    if _is_checkpointable_tensor(object):
        return _get_checkpointable_tensor_write_items(fqn, object)
    if isinstance(object, torch.Tensor):
        return [_create_write_item_for_tensor(fqn, object)]
    return [_create_write_item_for_bytesio(fqn, object)]


def _create_default_metadata_only_plan(state_dict: STATE_DICT_TYPE) -> SavePlan:
    """Return a plan of all items that this rank has."""
    return SavePlan([item for fqn, obj in state_dict.items() for item in _create_write_items(fqn, obj)])


# ---- items to read


def _create_read_item_for_byteio(
    dest_index: MetadataIndex, dest_offset: int, storage_index: MetadataIndex, storage_offset: int, length: int
) -> ReadItem:
    return ReadItem(
        type=LoadItemType.BYTE_IO,
        dest_index=dest_index,
        dest_offsets=torch.Size((dest_offset,)),
        storage_index=storage_index,
        storage_offsets=torch.Size((storage_offset,)),
        lengths=torch.Size((length,)),
    )


def _create_read_item_for_tensor(
    dest_index: MetadataIndex,
    dest_offsets: Sequence[int],
    storage_index: MetadataIndex,
    storage_offsets: Sequence[int],
    lengths: Sequence[int],
) -> ReadItem:
    return ReadItem(
        type=LoadItemType.TENSOR,
        dest_index=dest_index,
        dest_offsets=torch.Size(dest_offsets),
        storage_index=storage_index,
        storage_offsets=torch.Size(storage_offsets),
        lengths=torch.Size(lengths),
    )


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """Return the items that fill local chunks from the chunks of a checkpoint.

    Args:
        fqn: Flat name of the tensor.
        checkpoint_md: The tensor in the checkpoint.
        local_chunks: The chunks that this rank has.

    Returns:
        An item for each pair of a local and a saved chunk with a common element, ordered by local chunk.
    """
    saved_chunks = checkpoint_md.chunks
    dims = range(len(checkpoint_md.size))
    # Sort the saved chunks along the dimension in which they start at the most different places.
    sweep = max(dims, key=lambda d: len({chunk.offsets[d] for chunk in saved_chunks}), default=None)

    def bounds(chunk: ChunkStorageMetadata) -> tuple[int, int]:
        return (0, 1) if sweep is None else (chunk.offsets[sweep], chunk.offsets[sweep] + chunk.sizes[sweep])

    order = sorted(range(len(saved_chunks)), key=lambda i: (*bounds(saved_chunks[i]), i))
    starts = [bounds(saved_chunks[i])[0] for i in order]
    # The largest end of the chunks up to each place. It never decreases.
    ends = list(itertools.accumulate((bounds(saved_chunks[i])[1] for i in order), max))
    items = []
    for local_index, local in enumerate(local_chunks):
        start, end = bounds(local)
        for i in order[bisect_right(ends, start) : bisect_left(starts, end)]:
            saved = saved_chunks[i]
            if not _check_shard_metadata_pair_overlap(local, saved):
                continue
            regions = _shards_get_overlap_region_wrt_saved_tensor(saved_shard=saved, current_shard=local)
            items.append(
                _create_read_item_for_tensor(
                    dest_index=MetadataIndex(fqn, local.offsets, local_index),
                    dest_offsets=[dest for _, _, dest, _ in regions],
                    storage_index=MetadataIndex(fqn, saved.offsets, i),
                    storage_offsets=[offset for _, offset, _, _ in regions],
                    lengths=[n for _, _, _, n in regions],
                )
            )
    return items


def _create_chunk_list(tensor: Any) -> list[ChunkStorageMetadata]:
    """Return the chunks of a tensor that this rank has.

    Raises:
        ValueError: If `tensor` is not a tensor.
    """
    if has_chunks(tensor):
        return chunk_list(tensor)
    if _is_checkpointable_tensor(tensor):
        return _get_checkpointable_tensor_chunks(tensor)
    if isinstance(tensor, torch.Tensor):
        return [_create_chunk_from_tensor(tensor)]
    raise ValueError(f"Unsupported Type, expecting one of [Tensor, DTensor, ShardedTensor] ,but got {type(tensor)}")


def _create_read_items(fqn: str, md: STORAGE_TYPES, obj: Any) -> list[ReadItem]:
    """Return the items that fill one value."""
    if isinstance(md, BytesStorageMetadata):
        index = MetadataIndex(fqn)
        return [_create_read_item_for_byteio(index, 0, index, 0, 0)]
    if not (isinstance(obj, torch.Tensor) or has_chunks(obj)):
        raise ValueError(f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found {type(md)}")
    return create_read_items_for_chunk_list(fqn, md, _create_chunk_list(obj))


# ---- memory for values that have none


def _init_state_dict(state_dict: STATE_DICT_TYPE) -> None:
    """Replace tensors on device ``meta`` by tensors with memory, in place."""
    for key, value in state_dict.items():
        state_dict[key] = _with_memory(value)


def _with_memory(value: Any) -> Any:
    if isinstance(value, DTensor):
        return _dtensor_with_memory(value)
    if isinstance(value, torch.Tensor):
        if not value.is_meta:
            return value
        tensor = torch.empty_like(value, device=_device_of_group())
        if _is_checkpointable_tensor(value):
            _copy_checkpointable_tensor_metadata(value, tensor)
        return tensor
    if isinstance(value, (str, bytes, io.BytesIO)):
        return value
    if isinstance(value, dict):
        for key, item in value.items():
            value[key] = _with_memory(item)
        return value
    if isinstance(value, list):
        value[:] = [_with_memory(item) for item in value]
    elif type(value) is tuple:
        return tuple(_with_memory(item) for item in value)
    return value


def _dtensor_with_memory(value: Any) -> Any:
    if value.device.type != "meta":
        return value
    return DTensor.from_local(
        torch.empty_like(value.to_local(), device=_device_of_group()),
        device_mesh=value.device_mesh,
        placements=value.placements,
        shape=value.size(),
        stride=value.stride(),
    )


def _device_of_group() -> torch.device:
    """Return the device of the default process group, or ``cpu`` without one."""
    import pytpu.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        return torch.device("cpu")
    return torch.device(dist.distributed_c10d._get_pg_default_device())
