"""``torch.distributed.nn``: collectives with gradients. As no process is in a group, each raises ``ValueError``."""

from .. import _of_a_group

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
    globals()[_name] = _of_a_group(_name)
    globals()[_name].__module__ = __name__
del _name
