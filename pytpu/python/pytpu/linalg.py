"""``torch.linalg``: the ops of the table whose names begin with ``linalg_``."""

from . import _C

_PREFIX = "linalg_"
globals().update({k[len(_PREFIX) :]: v for k, v in vars(_C._ops).items() if k.startswith(_PREFIX)})
