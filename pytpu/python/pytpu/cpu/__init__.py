"""``torch.cpu``: the host as a device."""

from __future__ import annotations

from . import amp as amp

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from typing import Any

__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]


def is_available() -> bool:
    """Always return ``True``: there is a host."""
    return True


def device_count() -> int:
    """Number of hosts: one."""
    return 1


def current_device() -> str:
    """Its name."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Do nothing: the host has no work that is not finished."""
