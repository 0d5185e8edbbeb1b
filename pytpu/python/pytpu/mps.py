"""`torch.mps` on a machine without Apple's devices: functions answer as those of PyTorch without MPS.

The accelerator is `torch.tpu`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import NoReturn

from ._absent import device_count, is_available, manual_seed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytpu import Tensor

__all__ = [
    "Event",
    "Stream",
    "compile_shader",
    "current_allocated_memory",
    "current_stream",
    "default_stream",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "is_available",
    "load_metallib",
    "manual_seed",
    "recommended_max_memory",
    "seed",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_stream",
    "stream",
    "synchronize",
]


def _refuse(name) -> NoReturn:
    raise RuntimeError(f"Cannot execute {name}() without MPS backend.")


def current_allocated_memory() -> int:
    """Raise `RuntimeError`: there is no MPS backend."""
    _refuse("getCurrentAllocatedMemory")


def driver_allocated_memory() -> int:
    """Raise `RuntimeError`: there is no MPS backend."""
    _refuse("getDriverAllocatedMemory")


def recommended_max_memory() -> int:
    """Raise `RuntimeError`: there is no MPS backend."""
    _refuse("getRecommendedMaxMemory")


def empty_cache() -> None:
    """Raise `RuntimeError`: there is no MPS backend."""
    _refuse("emptyCache")


def synchronize() -> None:
    """Raise `RuntimeError`: there is no MPS backend."""
    _refuse("deviceSynchronize")


def set_per_process_memory_fraction(fraction: float) -> None:
    """Raise an error.

    Raises:
        TypeError: If `fraction` is no float.
        ValueError: If it is not between 0 and 2.
        RuntimeError: Otherwise: there is no MPS backend.
    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if fraction < 0 or fraction > 2:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~2")
    _refuse("setMemoryFraction")


def get_rng_state(device: Any = "mps") -> Tensor:
    """Raise `RuntimeError`: there is no MPS backend."""
    _refuse("getDefaultGenerator")


def set_rng_state(new_state: Tensor, device: Any = "mps") -> None:
    """Raise `RuntimeError`: there is no MPS backend."""
    _refuse("getDefaultGenerator")


def seed() -> None:
    """Raise `RuntimeError`: there is no MPS backend."""
    _refuse("getDefaultGenerator")


def compile_shader(source: str) -> NoReturn:
    """Raise `RuntimeError`: there is no MPS backend."""
    raise RuntimeError("MPS is not available")


def load_metallib(source: Any) -> NoReturn:
    """Raise `RuntimeError`: there is no MPS backend."""
    raise RuntimeError("MPS is not available")


class Event:
    """An event of MPS. Making one raises `RuntimeError`."""

    def __init__(self, enable_timing: bool = False) -> None:
        _refuse("acquireEvent")


class Stream:
    """A stream of MPS. Making one raises `RuntimeError`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("Tried to instantiate dummy base class Stream")


def current_stream() -> Stream:
    """Raise `RuntimeError`: there is no MPS backend."""
    return Stream()


default_stream = current_stream


def set_stream(stream: Stream | None) -> None:
    """Raise `RuntimeError` unless `stream` is `None`: there is no MPS backend."""
    if stream is not None:
        Stream()


@contextmanager
def stream(stream: Stream | None):
    """Return a context manager for a stream. There is only `None`."""
    set_stream(stream)
    yield
