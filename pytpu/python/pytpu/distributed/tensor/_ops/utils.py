"""Names of the table of sharding rules of PyTorch. Rules follow from the axes of ops here, so it is not there."""

from __future__ import annotations

from ...._absent import absent_function

register_op_strategy = absent_function(
    "torch.distributed.tensor._ops.utils.register_op_strategy",
    "placements follow from the axes of ops here, not from a table of strategies",
)
