"""The old place of ``torch.distributed._shard.sharding_spec``."""

from ._shard.sharding_spec import (
    ChunkShardingSpec as ChunkShardingSpec,
    EnumerableShardingSpec as EnumerableShardingSpec,
    ShardingSpec as ShardingSpec,
    ShardMetadata as ShardMetadata,
)
