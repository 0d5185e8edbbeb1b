"""MKL, which is absent."""

from ._absent import is_available  # noqa: F401
