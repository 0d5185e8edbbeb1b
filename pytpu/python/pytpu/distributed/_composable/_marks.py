"""Marks of modules that `replicate` has changed."""

from __future__ import annotations

#: The attribute of such modules.
KEY = "_replicate_state"


def is_replicated(module: object) -> bool:
    """Return whether `replicate` was applied to a module."""
    return KEY in getattr(module, "__dict__", {})
