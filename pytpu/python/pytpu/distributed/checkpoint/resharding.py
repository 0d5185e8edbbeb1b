"""``torch.distributed.checkpoint.resharding``: intersections of chunks."""

from __future__ import annotations

from .metadata import ChunkStorageMetadata

__all__: list[str] = []


def _check_shard_metadata_pair_overlap(shard1: ChunkStorageMetadata, shard2: ChunkStorageMetadata) -> bool:
    """Return whether two chunks have an element in common."""
    boxes = zip(shard1.offsets, shard1.sizes, shard2.offsets, shard2.sizes, strict=True)
    return all(max(a, b) < min(a + m, b + n) for a, m, b, n in boxes)


def _shards_get_overlap_region_wrt_saved_tensor(
    saved_shard: ChunkStorageMetadata, current_shard: ChunkStorageMetadata
) -> list[tuple[int, int, int, int]]:
    """Return the common box of two chunks.

    Returns:
        For each dimension: its number, the first index in `saved_shard`, the first index in `current_shard`, and the
        size.
    """
    regions = []
    boxes = zip(saved_shard.offsets, saved_shard.sizes, current_shard.offsets, current_shard.sizes, strict=True)
    for dim, (a, m, b, n) in enumerate(boxes):
        start, end = max(a, b), min(a + m, b + n)
        regions.append((dim, start - a, start - b, end - start))
    return regions
