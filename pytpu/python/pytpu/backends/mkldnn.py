"""Switches of oneDNN, which is absent."""

from . import _precision
from ._absent import check_booleans, during, is_available, linked, setter  # noqa: F401

enabled = False
deterministic = False
allow_tf32 = True
matmul = linked(fp32_precision=_precision.attribute("mkldnn", "matmul"))({})
conv = linked(fp32_precision=_precision.attribute("mkldnn", "conv"))({})
rnn = linked(fp32_precision=_precision.attribute("mkldnn", "rnn"))({})
# As in PyTorch, this is the setting of all backends.
check_booleans(__name__, {"fp32_precision": _precision.attribute("generic", "all")})
_set = setter(__name__, ("enabled", "deterministic", "allow_tf32"))


def set_flags(_enabled=None, _deterministic=None, _allow_tf32=None):
    """Set the values that are given, and return the old ones."""
    return _set(_enabled, _deterministic, _allow_tf32)


def flags(enabled=False, deterministic=False, allow_tf32=True):
    """Context manager that sets all flags."""
    return during(set_flags, enabled, deterministic, allow_tf32)
