"""Page-locked memory, which is not needed here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pin_memory(data: Any, device: Any = None) -> Any:
    """Return the data as it is: page-locked memory is not needed."""
    return data
