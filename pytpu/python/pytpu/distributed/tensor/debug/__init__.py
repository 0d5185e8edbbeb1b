"""`torch.distributed.tensor.debug`: which collectives sharded tensors call, and where their parts are."""

from ._comm_mode import CommDebugMode
from ._visualize_sharding import visualize_sharding

__all__ = ["CommDebugMode", "visualize_sharding"]
