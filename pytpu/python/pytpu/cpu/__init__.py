"""``torch.cpu``: the host as a device."""

from __future__ import annotations

from . import amp as amp

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from .._streams import Stream

__all__ = [
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Always return ``True``: there is a host."""
    return True


def device_count() -> int:
    """Number of hosts: one."""
    return 1


def current_device() -> str:
    """Its name."""
    return "cpu"


def is_initialized() -> bool:
    """Always return ``True``: the host needs no preparation."""
    return True


def set_device(device: Any) -> None:
    """Do nothing: there is one host."""


def current_stream(device: Any = None) -> Stream:
    """Return the stream of the host."""
    from .._streams import current_stream

    return current_stream("cpu")


def stream(stream: Stream | None) -> AbstractContextManager[Any]:
    """Return a context manager that does nothing: the host has one stream."""
    from contextlib import nullcontext

    return nullcontext()


def synchronize(device: Any = None) -> None:
    """Do nothing: the host has no work that is not finished."""
