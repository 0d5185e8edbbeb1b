"""``torch.distributed.nn.functional``: the same functions."""

from . import all_gather, all_reduce, all_to_all, all_to_all_single, broadcast, gather, reduce, reduce_scatter, scatter  # noqa: F401
