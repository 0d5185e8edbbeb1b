"""MKL, which is not here."""

from ._absent import is_available  # noqa: F401
