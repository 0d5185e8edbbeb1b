"""``torch.accelerator``: the accelerator by that name, which is device ``tpu``."""

from . import _C
from .tpu import current_device as current_device_index
from .tpu import (
    device_count,
    empty_cache,
    is_available,
    max_memory_allocated,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
    synchronize,
)
from .tpu import set_device as set_device_index

__all__ = [
    "current_accelerator", "current_stream", "set_stream", "current_device_idx", "current_device_index", "device_count", "device_index", "empty_cache", "is_available",
    "max_memory_allocated", "memory_allocated", "memory_reserved", "memory_stats", "reset_peak_memory_stats",
    "set_device_idx", "set_device_index", "synchronize",
]


def current_accelerator(check_available=False):
    """The accelerator's device, without an index; with ``check_available``, ``None`` where there is none."""
    return _C.device("tpu") if not check_available or is_available() else None


# Their older names.
current_device_idx = current_device_index
set_device_idx = set_device_index


def current_stream(device=None):
    """Return the stream of the accelerator, the only one that it has."""
    from ._streams import current_stream

    return current_stream(current_accelerator() if device is None else device)


def set_stream(stream):
    """Choose a stream: there is one, so nothing is to be done."""


class device_index:
    """Chooses a device until the end of the block; ``None`` for the one in use."""

    def __init__(self, device, /):
        self.idx = device

    def __enter__(self):
        if self.idx is not None:
            set_device_index(self.idx)

    def __exit__(self, *_):
        pass
