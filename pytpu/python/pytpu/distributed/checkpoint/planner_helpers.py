"""`torch.distributed.checkpoint.planner_helpers`: the saved chunks that fill the chunks of this rank."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from typing import Any

import pytpu as torch

from ._pieces import pieces_of, write_items
from .metadata import STORAGE_TYPES, BytesStorageMetadata, ChunkStorageMetadata, MetadataIndex, TensorStorageMetadata
from .planner import LoadItemType, ReadItem, WriteItem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["create_read_items_for_chunk_list"]


def common_boxes(
    chunks: list[ChunkStorageMetadata], others: list[ChunkStorageMetadata]
) -> Iterator[tuple[int, int, list[int], list[int]]]:
    """Yield the pairs of chunks that have an element in common, ordered by the second one.

    Chunks are sorted along one dimension, so that far fewer pairs are looked at than there are.

    Yields:
        Position in `chunks`, position in `others`, and the first index and the size of the common box.
    """
    dims = len(chunks[0].sizes) if chunks else 0
    # The dimension in which chunks start at the most different places.
    along = max(range(dims), key=lambda d: len({chunk.offsets[d] for chunk in chunks}), default=None)

    def interval(chunk: ChunkStorageMetadata) -> tuple[int, int]:
        return (0, 1) if along is None else (chunk.offsets[along], chunk.offsets[along] + chunk.sizes[along])

    order = sorted(range(len(chunks)), key=lambda i: interval(chunks[i]))
    starts = [interval(chunks[i])[0] for i in order]
    # The largest end of the chunks up to each place. It never decreases.
    ends = list(itertools.accumulate((interval(chunks[i])[1] for i in order), max))
    for j, other in enumerate(others):
        start, end = interval(other)
        for i in order[bisect_right(ends, start) : bisect_left(starts, end)]:
            chunk = chunks[i]
            lower = [max(a, b) for a, b in zip(chunk.offsets, other.offsets, strict=True)]
            upper = [
                min(a + m, b + n)
                for a, m, b, n in zip(chunk.offsets, chunk.sizes, other.offsets, other.sizes, strict=True)
            ]
            size = [last - first for first, last in zip(lower, upper, strict=True)]
            if all(n > 0 for n in size):
                yield i, j, lower, size


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

    def end_of(number: int, chunk: ChunkStorageMetadata, start: list[int]) -> tuple[MetadataIndex, torch.Size]:
        inside = torch.Size([a - b for a, b in zip(start, chunk.offsets, strict=True)])
        return MetadataIndex(fqn, chunk.offsets, number), inside

    items = []
    for i, j, start, size in common_boxes(checkpoint_md.chunks, local_chunks):
        source, target = end_of(i, checkpoint_md.chunks[i], start), end_of(j, local_chunks[j], start)
        items.append(ReadItem(LoadItemType.TENSOR, *target, *source, torch.Size(size)))
    return items


def read_items(fqn: str, saved: STORAGE_TYPES, value: Any) -> list[ReadItem]:
    """Return the items that fill one value.

    Raises:
        ValueError: If a tensor was saved, and `value` is none.
    """
    if isinstance(saved, BytesStorageMetadata):
        index, zero = MetadataIndex(fqn), torch.Size([0])
        return [ReadItem(LoadItemType.BYTE_IO, index, zero, index, zero, zero)]
    pieces = pieces_of(value)
    if pieces is None:
        raise ValueError(
            f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found {type(saved)}"
        )
    return create_read_items_for_chunk_list(fqn, saved, pieces.chunks())


def _create_write_item_for_tensor(fqn: str, tensor: torch.Tensor) -> WriteItem:
    """Return the item of a plain tensor."""
    (item,) = write_items(fqn, tensor)
    return item
