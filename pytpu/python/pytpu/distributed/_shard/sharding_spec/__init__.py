"""How the boxes of a tensor are placed on ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod

from .... import Size
from ...remote_device import _remote_device
from ..metadata import ShardMetadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..sharded_tensor.metadata import ShardedTensorMetadata, TensorProperties

__all__ = ["ChunkShardingSpec", "EnumerableShardingSpec", "ShardMetadata", "ShardingSpec"]


class ShardingSpec(ABC):
    """A rule that divides a tensor into boxes."""

    @abstractmethod
    def shards(self, sizes: Sequence[int]) -> list[ShardMetadata]:
        """Return the places of all shards of a tensor of the given sizes."""

    def build_metadata(self, tensor_sizes: Sequence[int], tensor_properties: TensorProperties) -> ShardedTensorMetadata:
        """Return the description of a tensor of the given sizes."""
        from ..sharded_tensor.metadata import ShardedTensorMetadata

        return ShardedTensorMetadata(self.shards(tensor_sizes), Size(tensor_sizes), tensor_properties)


@dataclass
class ChunkShardingSpec(ShardingSpec):
    """Divide one dimension as `torch.chunk` does.

    Args:
        dim: the dimension.
        placements: the place of each chunk, such as `rank:0/cpu`. Chunks without elements are left out.
    """

    dim: int
    placements: list[_remote_device]

    def __init__(self, dim: int, placements: Sequence[str | _remote_device]) -> None:
        if not isinstance(dim, int):
            raise ValueError(f"Sharding dim needs to be an integer, found: {dim}")
        self.dim = dim
        self.placements = [_remote_device(place) if isinstance(place, str) else place for place in placements]

    def shards(self, sizes: Sequence[int]) -> list[ShardMetadata]:
        """Return the places of all shards of a tensor of the given sizes."""
        dim = self.dim + len(sizes) if self.dim < 0 else self.dim
        if not 0 <= dim < len(sizes):
            raise ValueError(f"Invalid sharding dim: {self.dim}")
        step = -(-sizes[dim] // len(self.placements))
        made = []
        for i, place in enumerate(self.placements):
            offsets, box = [0] * len(sizes), list(sizes)
            offsets[dim] = min(i * step, sizes[dim])
            box[dim] = min(step, sizes[dim] - offsets[dim])
            if box[dim] > 0:
                made.append(ShardMetadata(offsets, box, place))
        return made


@dataclass
class EnumerableShardingSpec(ShardingSpec):
    """Name each shard.

    Args:
        shards: the places of all shards. They do not overlap.

    Raises:
        ValueError: if there is no shard, or if the shards differ in the number of dimensions, or overlap.
    """

    def __init__(self, shards: list[ShardMetadata]) -> None:
        if not shards:
            raise ValueError(f"Found empty shard list provided, no shards to validate: {shards}")
        if len({len(shard.shard_offsets) for shard in shards}) > 1:
            raise ValueError("Found inconsistent ranks for shards")
        for i, shard in enumerate(shards):
            for other in shards[:i]:
                if _overlap(shard, other):
                    raise ValueError(f"Shards {other} and {shard} overlap")
        self._shards = shards

    def shards(self, sizes: Sequence[int]) -> list[ShardMetadata]:
        """Return the shards.

        Raises:
            ValueError: if they do not cover a tensor of the given sizes.
        """
        for shard in self._shards:
            ends = [start + n for start, n in zip(shard.shard_offsets, shard.shard_sizes, strict=True)]
            if len(ends) != len(sizes) or any(end > n for end, n in zip(ends, sizes, strict=True)):
                raise ValueError(f"Shard {shard} is not inside a tensor of sizes {list(sizes)}")
        covered = sum(prod(shard.shard_sizes) for shard in self._shards)
        if covered != prod(sizes):
            raise ValueError(
                f"Total volume of shards: {covered} does not match tensor volume: {prod(sizes)}, in other words all "
                "the individual shards do not cover the entire tensor"
            )
        return self._shards

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EnumerableShardingSpec) and self._shards == other._shards

    def __repr__(self) -> str:
        return f"EnumerableShardingSpec(shards={self._shards})"


def _overlap(a: ShardMetadata, b: ShardMetadata) -> bool:
    sides = zip(a.shard_offsets, a.shard_sizes, b.shard_offsets, b.shard_sizes, strict=True)
    return all(i < j + n and j < i + m for i, m, j, n in sides)
