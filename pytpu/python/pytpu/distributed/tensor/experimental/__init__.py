"""``torch.distributed.tensor.experimental``: functions of parts of sharded tensors."""

from ...._absent import absent_function
from ._attention import context_parallel
from ._func_map import local_map
from ._replication import implicit_replication

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]

register_sharding = absent_function(
    "torch.distributed.tensor.experimental.register_sharding", "placements are derived from the axes of ops"
)
