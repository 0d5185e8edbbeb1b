"""`torch.xpu` on a machine without Intel's devices: functions answer as those of PyTorch without XPU.

The accelerator is `torch.tpu`.
"""

from __future__ import annotations

import collections
from typing import NoReturn

from . import _absent
from ._absent import device_count, empty_cache, is_available, is_initialized, manual_seed, manual_seed_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal

    from pytpu import Tensor

__all__ = [
    "Event",
    "MemPool",
    "Stream",
    "StreamContext",
    "XPUGraph",
    "XPUPluggableAllocator",
    "can_device_access_peer",
    "change_current_allocator",
    "clock_rate",
    "current_device",
    "current_stream",
    "default_generators",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "graph",
    "graph_pool_handle",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_usage",
    "power_draw",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "temperature",
    "use_mem_pool",
    "utilization",
]

default_generators: tuple[()] = ()
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _absent.no_memory


def _none(*_args: Any, **_kwargs: Any) -> Any:
    """Raise `AssertionError`: there is no XPU."""
    raise AssertionError("Torch not compiled with XPU enabled")


current_device = current_stream = get_device_capability = get_device_name = get_device_properties = _none
set_device = set_stream = synchronize = init = _lazy_init = initial_seed = can_device_access_peer = _none
get_stream_from_external = graph_pool_handle = make_graphed_callables = use_mem_pool = change_current_allocator = _none
mem_get_info = get_per_process_memory_fraction = set_per_process_memory_fraction = get_rng_state = set_rng_state = _none
reset_accumulated_memory_stats = reset_peak_memory_stats = list_gpu_processes = _none
clock_rate = device_memory_used = memory_usage = power_draw = temperature = utilization = _none


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Keep a call for the time when XPU begins, which it never does."""


def _is_in_bad_fork() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Always return `False`: there is no XPU."""
    return False


def is_tf32_supported() -> bool:
    """Always return `False`: there is no XPU."""
    return False


def is_current_stream_capturing() -> bool:
    """Always return `False`: there is no XPU."""
    return False


def get_arch_list() -> list[str]:
    """Return an empty list: there is no XPU."""
    return []


def get_gencode_flags() -> str:
    """Return an empty text: there is no XPU."""
    return ""


def seed() -> None:
    """Do nothing: there are no generators to seed."""


seed_all = seed


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return an empty dictionary: no memory is allocated."""
    return collections.OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return an empty dictionary: no memory is allocated."""
    return {}


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """Return an empty list: no memory is allocated."""
    return []


def get_rng_state_all() -> list[Tensor]:
    """Return an empty list: there are no devices."""
    return []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore the states that `get_rng_state_all` returned."""
    for _ in new_states:
        _none()


class _Refused:
    """A class for annotations and `isinstance`, without instances."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"Tried to instantiate dummy base class {type(self).__name__}")


class Event(_Refused):
    """An event of XPU. Making one raises `RuntimeError`."""


class Stream(_Refused):
    """A stream of XPU. Making one raises `RuntimeError`."""


class MemPool(_Refused):
    """A pool of memory. Making one raises `RuntimeError`."""


class XPUGraph(_Refused):
    """A graph of XPU. Making one raises `RuntimeError`."""


class XPUPluggableAllocator(_Refused):
    """An allocator of XPU. Making one raises `RuntimeError`."""


class graph(_Refused):
    """A block that records a graph. Making one raises `RuntimeError`."""


class device:
    """Context manager for a device.

    `None` or a negative number chooses none. Any other device raises an error on entry.
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else device

    def __enter__(self) -> None:
        if not isinstance(self.idx, int) or self.idx >= 0:
            _none()

    def __exit__(self, *_: Any) -> Literal[False]:
        return False


class device_of(device):
    """Context manager that chooses the device of a tensor if it is one of XPU, which no tensor is on."""

    def __init__(self, obj: Any) -> None:
        super().__init__(None)


class StreamContext:
    """Context manager for a stream. There is only `None`."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _none()

    def __exit__(self, *_: Any) -> Literal[False]:
        return False


def stream(stream: Stream | None) -> StreamContext:
    """Return a `StreamContext`."""
    return StreamContext(stream)
