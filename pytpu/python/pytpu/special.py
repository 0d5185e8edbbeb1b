"""``torch.special``: the functions of the table whose names begin with ``special_``."""

from . import _C

_PREFIX = "special_"
globals().update({k[len(_PREFIX) :]: v for k, v in vars(_C._ops).items() if k.startswith(_PREFIX)})
