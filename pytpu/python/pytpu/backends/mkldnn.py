"""Switches of oneDNN, which is not here."""

from ._absent import Switches, during, is_available, setter  # noqa: F401

enabled = False
deterministic = False
allow_tf32 = True
matmul = Switches({}, fp32_precision="none")
_set = setter(__name__, ("enabled", "deterministic", "allow_tf32"))


def set_flags(_enabled=None, _deterministic=None, _allow_tf32=None):
    """Sets those that are given, and gives what they were."""
    return _set(_enabled, _deterministic, _allow_tf32)


def flags(enabled=False, deterministic=False, allow_tf32=True):
    """A context manager: inside, all of them are as given."""
    return during(set_flags, enabled, deterministic, allow_tf32)
