"""Functions of symbolic sizes. Sizes are numbers here, never symbols."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    _T = TypeVar("_T")


def sym_int(a: float) -> int:
    """Return a number without its fraction."""
    return int(a)


def sym_float(a: float) -> float:
    """Return a number as a float."""
    return float(a)


def sym_not(a: object) -> bool:
    """Return `not a`."""
    return not a


def sym_max(a: float, b: float) -> float:
    """Return the larger number, as a float if one of them is a float.

    Example:
        >>> import pytpu as torch
        >>> torch.sym_max(1, 2.5)
        2.5
    """
    greater = max(a, b)
    return float(greater) if isinstance(a, float) or isinstance(b, float) else int(greater)


def sym_min(a: float, b: float) -> float:
    """Return the smaller number, as a float if one of them is a float."""
    smaller = min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else int(smaller)


def sym_ite(b: bool, t: _T, f: _T) -> _T:
    """Return `t` if `b` is `True`, otherwise `f`.

    Raises:
        AssertionError: If `b` is not a `bool`.
    """
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    return t if b else f


def sym_sum(args: Sequence[float]) -> float:
    """Return the sum of numbers."""
    return sum(args)


def sym_sqrt(a: float) -> float:
    """Return the square root of a number."""
    return math.sqrt(a)
