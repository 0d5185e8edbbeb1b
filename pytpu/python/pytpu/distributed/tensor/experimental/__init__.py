"""`torch.distributed.tensor.experimental`: functions of parts of sharded tensors."""

from ._attention import context_parallel
from ._func_map import local_map
from ._replication import implicit_replication

__all__ = [
    "context_parallel",
    "implicit_replication",
    "local_map",
]
