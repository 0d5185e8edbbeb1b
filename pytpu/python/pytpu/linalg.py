"""``torch.linalg``: the ops of the table whose names begin with ``linalg_``."""

from . import _C

_PREFIX = "linalg_"
globals().update({k[len(_PREFIX) :]: v for k, v in vars(_C._ops).items() if k.startswith(_PREFIX)})

#: A decomposition failed, or a matrix has no inverse.
LinAlgError = _C._LinAlgError


def multi_dot(tensors, *, out=None):
    """The product of a chain of matrices, in the cheapest order."""
    return _C._ops.linalg_multi_dot(list(tensors), out=out)
