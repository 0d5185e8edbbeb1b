"""Metal, which is not here."""

from ._absent import is_available, is_built  # noqa: F401


def is_macos_or_newer(major, minor):
    """Always return `False`: Metal is not here."""
    return False


def is_macos13_or_newer(minor=0):
    """Always return `False`: Metal is not here."""
    return False
