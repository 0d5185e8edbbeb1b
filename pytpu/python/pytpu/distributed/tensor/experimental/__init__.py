"""``torch.distributed.tensor.experimental``: functions of parts of sharded tensors."""

from ...._absent import absent_function
from ._func_map import local_map

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]

_HERE, _WHY = "torch.distributed.tensor.experimental", "it is not implemented yet"
context_parallel = absent_function(f"{_HERE}.context_parallel", _WHY)
implicit_replication = absent_function(f"{_HERE}.implicit_replication", _WHY)
register_sharding = absent_function(f"{_HERE}.register_sharding", "placements are derived from the axes of ops")
