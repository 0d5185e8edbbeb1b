"""``torch.distributed.checkpoint.protocol``: tensors that say by attributes which part of a larger tensor they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pytpu as torch

from .metadata import ChunkStorageMetadata, MetadataIndex

if TYPE_CHECKING:
    from typing import TypeGuard

    from pytpu import Tensor

__all__ = ["CheckpointableTensor"]


@runtime_checkable
class CheckpointableTensor(Protocol):
    """A tensor that holds chunks of a larger tensor, which it describes by four attributes.

    Args:
        global_shape: Size of the larger tensor.
        global_offsets: For each chunk, its first index in the larger tensor.
        local_offsets: For each chunk, its first index in this tensor.
        local_sizes: For each chunk, its size.
    """

    global_shape: tuple[int, ...]
    global_offsets: tuple[tuple[int, ...], ...]
    local_offsets: tuple[tuple[int, ...], ...]
    local_sizes: tuple[tuple[int, ...], ...]


_ATTRIBUTES = ("global_shape", "global_offsets", "local_offsets", "local_sizes")


def _is_checkpointable_tensor(obj: object) -> TypeGuard[Any]:
    return isinstance(obj, torch.Tensor) and all(hasattr(obj, name) for name in _ATTRIBUTES)


def _copy_checkpointable_tensor_metadata(src: Any, dst: Tensor) -> None:
    for name in _ATTRIBUTES:
        setattr(dst, name, getattr(src, name))


def _get_checkpointable_tensor_chunks(tensor: Any) -> list[ChunkStorageMetadata]:
    _check(tensor)
    return [
        ChunkStorageMetadata(offsets=torch.Size(offset), sizes=torch.Size(size))
        for offset, size in zip(tensor.global_offsets, tensor.local_sizes, strict=True)
    ]


def _get_checkpointable_tensor_shard(tensor: Any, index: MetadataIndex) -> Tensor:
    _check(tensor)
    offsets = [torch.Size(offset) for offset in tensor.global_offsets]
    if index.offset is None:
        if len(offsets) != 1:
            raise ValueError(f"Cannot lookup {index.fqn} with multiple checkpointable shards and no offset")
        i = 0
    elif index.offset in offsets:
        i = offsets.index(index.offset)
    else:
        raise ValueError(f"Could not find checkpointable tensor shard at '{index.offset}' for FQN: '{index.fqn}'")
    place = zip(tensor.local_offsets[i], tensor.local_sizes[i], strict=True)
    slices = tuple(slice(start, start + n) for start, n in place)
    return tensor[slices] if slices else tensor


def _check(tensor: Any) -> None:
    """Raise `ValueError` if the attributes contradict each other."""
    count, shape, local_shape = len(tensor.global_offsets), tensor.global_shape, tuple(tensor.size())
    for name in ("local_offsets", "local_sizes"):
        if len(getattr(tensor, name)) != count:
            raise ValueError(f"global_offsets and {name} must have the same length")
    for i, (offset, local_offset, size) in enumerate(
        zip(tensor.global_offsets, tensor.local_offsets, tensor.local_sizes, strict=True)
    ):
        if len(offset) != len(shape):
            raise ValueError(f"global_offsets[{i}] must have {len(shape)} dimensions")
        if len(local_offset) != len(local_shape):
            raise ValueError(f"local_offsets[{i}] must have {len(local_shape)} dimensions")
        if len(size) != len(shape):
            raise ValueError(f"local_sizes[{i}] must have {len(shape)} dimensions")
        if len(size) != len(local_shape):
            raise ValueError(f"local_sizes[{i}] must have {len(local_shape)} local dimensions")
        for dim, (a, b, n, total, held) in enumerate(zip(offset, local_offset, size, shape, local_shape, strict=True)):
            if min(a, n) < 0 or a + n > total:
                raise ValueError(f"global shard {i} dimension {dim} is outside global_shape")
            if b < 0 or b + n > held:
                raise ValueError(f"local shard {i} dimension {dim} is outside tensor shape")


def _size_of(obj: Any) -> torch.Size:
    """Return the size of the whole tensor."""
    return torch.Size(obj.global_shape) if _is_checkpointable_tensor(obj) else obj.size()
