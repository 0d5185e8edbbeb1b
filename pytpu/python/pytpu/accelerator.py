"""`torch.accelerator`: the accelerator, which is device `tpu`.

Without an accelerator, device `tpu` is XLA's CPU backend. Programs may use it by its name, but it is slower than `cpu`
for most of them. So programs that ask for the accelerator are told that there is none, and choose `cpu`, as they do
with PyTorch. With the environment variable `TORCHTPU_STANDIN_IS_ACCELERATOR=1` it counts as an accelerator.
"""

from __future__ import annotations

import os

from . import _C, tpu
from .tpu import (
    current_device as current_device_index,
    empty_cache,
    max_memory_allocated,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
    set_device as set_device_index,
    synchronize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._streams import Stream


__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "set_stream",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "synchronize",
]


def _exists():
    """Return whether device `tpu` is an accelerator, or counts as one."""
    if not _C._tpu_plugin_is_installed() and not _C._plan_is_active():
        return False
    is_asked_for = os.environ.get("TORCHTPU_STANDIN_IS_ACCELERATOR", "") == "1"
    return is_asked_for or _C._plan_is_active() or not _C._tpu_is_stand_in()


def is_available() -> bool:
    """Return whether there is an accelerator. XLA's CPU backend counts only if the environment says so.

    Example:
        >>> import pytpu as torch
        >>> torch.accelerator.is_available() == (torch.accelerator.current_accelerator() is not None)
        True
    """
    return _exists() and tpu.is_available()


def device_count() -> int:
    """Return the number of accelerators, which is 0 without one.

    Example:
        >>> import pytpu as torch
        >>> torch.accelerator.is_available() == (torch.accelerator.device_count() > 0)
        True
    """
    return tpu.device_count() if _exists() else 0


def current_accelerator(check_available: bool = False) -> _C.device | None:
    """Return the device of the accelerator without an index, or `None` without an accelerator.

    Args:
        check_available: If `True`, return `None` also if the plugin of the accelerator finds no device.

    Example:
        >>> import pytpu as torch
        >>> torch.accelerator.current_accelerator() in (torch.device("tpu"), None)
        True
    """
    is_there = is_available() if check_available else _exists()
    return _C.device("tpu") if is_there else None


def _device():
    """Return device `tpu` if programs can use it, also where it is no accelerator. `None` without a plugin."""
    return _C.device("tpu") if _C._plan_is_active() or _C._tpu_plugin_is_installed() else None


# Their older names.
current_device_idx = current_device_index
set_device_idx = set_device_index


def _index(device, optional=False):
    if isinstance(device, int):
        return device
    if device is not None:
        device = _C.device(device)
        if device.type != "tpu":
            raise ValueError(f"{device.type} doesn't match the current accelerator tpu.")
    index = None if device is None else device.index
    if index is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return current_device_index() if index is None else index


def get_memory_info(device_index: _C.device | str | int | None = None, /) -> tuple[int, int]:
    """Return the free and the total memory of the accelerator, in bytes. On XLA:CPU they are those of the host.

    Args:
        device_index: Device, or its name or index. `None` is the device in use.

    Raises:
        ValueError: If the device is not an accelerator.
        NotImplementedError: If the plugin does not report its memory.
    """
    from .tpu import mem_get_info

    return mem_get_info(_index(device_index, optional=True))


def get_device_capability(device: _C.device | str | int | None = None, /) -> dict[str, Any]:
    """Return the capabilities of the accelerator.

    Args:
        device: Device, or its name or index. `None` is the device in use.

    Returns:
        A dict in which `"supported_dtypes"` is the set of dtypes.

    Raises:
        ValueError: If the device is not an accelerator.

    Example:
        >>> import pytpu as torch
        >>> torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]
        True
    """
    _index(device, optional=True)
    names = """bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 uint16 uint32
        uint64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"""
    return {"supported_dtypes": {getattr(_C, name) for name in names.split()}}


def current_stream(device: _C.device | str | int | None = None, /) -> Stream:
    """Return the stream of the accelerator that this thread has chosen.

    Args:
        device: Device, or its name or index. `None` is the device in use.

    Raises:
        ValueError: If the device is not an accelerator.
    """
    from ._streams import current_stream

    _index(device, optional=True)
    return current_stream(current_accelerator() if device is None else device)


def set_stream(stream: Stream) -> None:
    """Choose the current stream of this thread.

    Args:
        stream: The stream.
    """
    from ._streams import set_stream

    set_stream(stream)


class device_index:
    """Context manager in which another device is in use.

    Args:
        device: Index of the device. `None` keeps the device in use.

    Example:
        >>> import pytpu as torch
        >>> with torch.accelerator.device_index(0):
        ...     print(torch.accelerator.current_device_index())
        0
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            set_device_index(self.idx)

    def __exit__(self, *_: Any) -> None:
        pass
