"""Helpers for type annotations."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


def not_none(obj: T | None) -> T:
    """Return `obj`.

    Raises:
        TypeError: if it is `None`.
    """
    if obj is None:
        raise TypeError("Invariant encountered: value was None when it should not be")
    return obj
