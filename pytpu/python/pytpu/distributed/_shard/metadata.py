"""The place of one shard."""

from __future__ import annotations

from dataclasses import dataclass

from ..remote_device import _remote_device

__all__ = ["ShardMetadata"]


@dataclass
class ShardMetadata:
    """The box of a shard in its tensor, and where the shard is.

    Args:
        shard_offsets: the first index of the box in each dimension.
        shard_sizes: the size of the box in each dimension.
        placement: the rank and its device, such as `rank:1/cpu`. A text becomes a `_remote_device`.

    Raises:
        ValueError: if the lists differ in length, or have a negative number.
    """

    shard_offsets: list[int]
    shard_sizes: list[int]
    placement: _remote_device | None

    def __init__(
        self, shard_offsets: list[int], shard_sizes: list[int], placement: str | _remote_device | None = None
    ) -> None:
        if len(shard_offsets) != len(shard_sizes):
            raise ValueError(
                f"shard_offsets and shard_sizes should have the same number of elements, found {len(shard_offsets)} "
                f"and {shard_sizes} respectively"
            )
        if any(n < 0 for n in [*shard_offsets, *shard_sizes]):
            raise ValueError("shard_offsets and shard_sizes should be >=0")
        self.shard_offsets, self.shard_sizes = shard_offsets, shard_sizes
        self.placement = _remote_device(placement) if isinstance(placement, str) else placement

    def __hash__(self) -> int:
        return hash((*self.shard_offsets, *self.shard_sizes, self.placement))
