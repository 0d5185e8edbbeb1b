"""Names of PyTorch's table of sharding rules. Rules follow from the axes of ops here, so that the table is not there."""

from __future__ import annotations

from ...._absent import absent_function

register_op_strategy = absent_function(
    "torch.distributed.tensor._ops.utils.register_op_strategy",
    "placements follow from the axes of ops here, not from a table of strategies",
)
