"""Tensors as the chunks that this rank has of them.

Checkpoints know three kinds of tensors: plain ones, those with the attributes of `CheckpointableTensor`, and those with
the methods of `_Checkpointable`, such as `DTensor`. `pieces_of` gives all of them the methods of `Pieces`.
"""

from __future__ import annotations

from typing import Any

import pytpu as torch

from ..tensor import DTensor
from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from .planner import TensorWriteData, WriteItem, WriteItemType
from .protocol import CheckpointableTensor, check_attributes, copy_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor


class Pieces:
    """A plain tensor: one chunk, which each rank has."""

    item_type = WriteItemType.TENSOR

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def size(self) -> torch.Size:
        """Return the size of the whole tensor."""
        return self.tensor.size()

    def chunks(self) -> list[ChunkStorageMetadata]:
        """Return the places of the chunks."""
        return [ChunkStorageMetadata(torch.Size([0] * len(self.size())), self.size())]

    def memory(self, index: MetadataIndex) -> Tensor:
        """Return the memory of a chunk.

        Raises:
            ValueError: If this rank does not have the chunk.
        """
        if any(index.offset or ()):
            raise _not_sharded(index)
        return self.tensor


class _OfMethods(Pieces):
    """An object with the methods of `_Checkpointable`."""

    item_type = WriteItemType.SHARD

    def chunks(self) -> list[ChunkStorageMetadata]:
        return self.tensor.__create_chunk_list__()

    def memory(self, index: MetadataIndex) -> Tensor:
        return self.tensor.__get_tensor_shard__(index)


class _OfAttributes(Pieces):
    """A tensor with the attributes of `CheckpointableTensor`."""

    item_type = WriteItemType.SHARD

    def size(self) -> torch.Size:
        return torch.Size(self.tensor.global_shape)

    def chunks(self) -> list[ChunkStorageMetadata]:
        check_attributes(self.tensor)
        places = zip(self.tensor.global_offsets, self.tensor.local_sizes, strict=True)
        return [ChunkStorageMetadata(torch.Size(offset), torch.Size(size)) for offset, size in places]

    def memory(self, index: MetadataIndex) -> Tensor:
        found = [i for i, chunk in enumerate(self.chunks()) if index.offset in (None, chunk.offsets)]
        if index.offset is None and len(found) != 1:
            raise ValueError(f"Cannot lookup {index.fqn} with multiple checkpointable shards and no offset")
        if not found:
            raise ValueError(f"Could not find checkpointable tensor shard at '{index.offset}' for FQN: '{index.fqn}'")
        return narrow(self.tensor, self.tensor.local_offsets[found[0]], self.tensor.local_sizes[found[0]])


def pieces_of(value: Any) -> Pieces | None:
    """Return the chunks of a tensor, or `None` for another object."""
    if hasattr(value, "__create_chunk_list__"):
        return _OfMethods(value)
    if not isinstance(value, torch.Tensor):
        return None
    return _OfAttributes(value) if isinstance(value, CheckpointableTensor) else Pieces(value)


def write_items(fqn: str, value: Any) -> list[WriteItem]:
    """Return the items of one value that this rank could write."""
    if hasattr(value, "__create_write_items__"):
        return value.__create_write_items__(fqn, value)
    pieces = pieces_of(value)
    if pieces is None:
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    return _items(fqn, value, pieces)


def shard_items(fqn: str, value: Any) -> list[WriteItem]:
    """Return the items of a tensor with the methods of `_Checkpointable`."""
    return _items(fqn, value, _OfMethods(value))


def _items(fqn: str, value: Any, pieces: Pieces) -> list[WriteItem]:
    items = []
    for number, chunk in enumerate(pieces.chunks()):
        index = MetadataIndex(fqn, chunk.offsets, number)
        properties = TensorProperties.create_from_tensor(pieces.memory(index))
        properties.requires_grad = value.requires_grad
        data = TensorWriteData(chunk, properties, pieces.size())
        items.append(WriteItem(index, pieces.item_type, tensor_data=data))
    return items


def memory_of(value: Any, index: MetadataIndex) -> Any:
    """Return the memory of a chunk if `value` is a tensor, or else `value`.

    Raises:
        ValueError: If this rank does not have the chunk, or `index` names a chunk of an object that is no tensor.
    """
    pieces = pieces_of(value)
    if pieces is not None:
        return pieces.memory(index)
    if index.offset is not None:
        raise _not_sharded(index)
    return value


def _not_sharded(index: MetadataIndex) -> ValueError:
    return ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")


def narrow(tensor: Tensor, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Return a box of a tensor, as a view."""
    for dim, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        if size != tensor.size(dim):
            tensor = tensor.narrow(dim, offset, size)
    return tensor


# ---- memory for tensors on device `meta`


def with_memory(value: Any) -> Any:
    """Return a value whose tensors on device `meta` are replaced by tensors with memory, dicts and lists in place."""
    if isinstance(value, (torch.Tensor, DTensor)):
        return _allocate(value) if value.device.type == "meta" else value
    if isinstance(value, dict):
        for key, item in value.items():
            value[key] = with_memory(item)
    elif isinstance(value, list):
        value[:] = [with_memory(item) for item in value]
    elif type(value) is tuple:
        return tuple(with_memory(item) for item in value)
    return value


def _allocate(tensor: Any) -> Any:
    if not isinstance(tensor, DTensor):
        made = torch.empty_like(tensor, device=device_of_group())
        return copy_attributes(tensor, made) if isinstance(tensor, CheckpointableTensor) else made
    local = torch.empty_like(tensor.to_local(), device=device_of_group())
    return DTensor.from_local(local, tensor.device_mesh, tensor.placements, shape=tensor.size(), stride=tensor.stride())


def device_of_group() -> torch.device:
    """Return the device of the default process group, or `cpu` without one."""
    import pytpu.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        return torch.device("cpu")
    return torch.device(dist.distributed_c10d._get_pg_default_device())
