"""`torch.cpu`: the host as a device."""

from __future__ import annotations

import contextlib

from .. import _streams
from . import amp as amp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

__all__ = [
    "Stream",
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
    """Always return `True`: there is a host."""
    return True


def device_count() -> int:
    """Number of hosts: one."""
    return 1


def current_device() -> str:
    """Its name."""
    return "cpu"


def is_initialized() -> bool:
    """Always return `True`: the host needs no preparation."""
    return True


def set_device(device: Any) -> None:
    """Do nothing: there is one host."""


class Stream(_streams.Stream):
    """A stream of the host. All streams of the host are one queue.

    Args:
        priority: accepted, without an effect.
    """

    def __init__(self, priority: int = -1) -> None:
        super().__init__("cpu", priority=priority)


def current_stream(device: Any = None) -> _streams.Stream:
    """Return the stream of the host that this thread has chosen."""
    return _streams.current_stream("cpu")


def stream(stream: _streams.Stream | None) -> AbstractContextManager[Any]:
    """Return a context manager in which a stream is the current one of this thread.

    Args:
        stream: the stream. `None` leaves the current one.
    """
    return contextlib.nullcontext() if stream is None else stream


def synchronize(device: Any = None) -> None:
    """Do nothing: the host has no work that is not finished."""


def _is_vnni_supported() -> bool:
    """Return whether the processor has instructions for products of 8-bit integers."""
    return "avx512_vnni" in _flags()


def _is_avx512_supported() -> bool:
    """Return whether the processor has AVX-512."""
    return "avx512f" in _flags()


def _is_avx2_supported() -> bool:
    """Return whether the processor has AVX2."""
    return "avx2" in _flags()


def _is_amx_tile_supported() -> bool:
    """Return whether the processor has tiles of AMX."""
    return "amx_tile" in _flags()


def _flags():
    try:
        with open("/proc/cpuinfo") as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), "").split()
    except OSError:
        return []
