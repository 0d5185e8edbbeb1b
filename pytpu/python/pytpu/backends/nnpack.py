"""NNPACK, which is not here."""

from ._absent import during, is_available, setter  # noqa: F401

enabled = False
_set = setter(__name__, ("enabled",))


def set_flags(_enabled):
    """Set the switch, and return its old value."""
    return _set(_enabled)


def flags(enabled=False):
    """Context manager that sets the switch."""
    return during(set_flags, enabled)
