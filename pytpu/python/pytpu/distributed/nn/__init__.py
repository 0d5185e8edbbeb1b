"""``torch.distributed.nn``: collectives with gradients, which are not implemented yet."""

from ..._absent import absent_function
from .. import _WHY

for _name in (
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
):
    globals()[_name] = absent_function(f"torch.distributed.nn.{_name}", _WHY)
del _name
