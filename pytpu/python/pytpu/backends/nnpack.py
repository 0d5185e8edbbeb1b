"""NNPACK, which is not here."""

from ._absent import is_available, scope  # noqa: F401

enabled = False
flags = scope(globals())
