"""The accelerator. Libraries look for this module to learn the kind of ``torch``."""

from ..tpu import is_available as is_available


def is_built():
    """Return ``True``: every build has device ``tpu``, whether or not a plugin is installed."""
    return True
