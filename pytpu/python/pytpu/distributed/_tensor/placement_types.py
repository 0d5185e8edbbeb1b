"""The older name of ``torch.distributed.tensor.placement_types``."""

from ..tensor._dtensor_spec import DTensorSpec as DTensorSpec, TensorMeta as TensorMeta
from ..tensor.placement_types import (
    Partial as Partial,
    Placement as Placement,
    Replicate as Replicate,
    Shard as Shard,
)
