"""The old place of ``torch.distributed._shard.sharded_tensor``."""

from ._shard.sharded_tensor import (
    Shard as Shard,
    ShardedTensor as ShardedTensor,
    ShardedTensorMetadata as ShardedTensorMetadata,
    ShardMetadata as ShardMetadata,
    TensorProperties as TensorProperties,
    empty as empty,
    full as full,
    init_from_local_shards as init_from_local_shards,
    ones as ones,
    pre_load_state_dict_hook as pre_load_state_dict_hook,
    rand as rand,
    randn as randn,
    state_dict_hook as state_dict_hook,
    zeros as zeros,
)
