"""`torch.distributed.checkpoint.protocol`: tensors that say by attributes which part of a larger tensor they hold."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

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


def copy_attributes(source: Any, target: Any) -> Any:
    """Give `target` the attributes of a `CheckpointableTensor`, and return it."""
    for name in ("global_shape", "global_offsets", "local_offsets", "local_sizes"):
        setattr(target, name, getattr(source, name))
    return target


def check_attributes(tensor: Any) -> None:
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
