"""`torch.cuda` without CUDA: scripts that ask learn that it is not available. The accelerator is `torch.tpu`."""

from __future__ import annotations

import collections

from pytpu import OutOfMemoryError as OutOfMemoryError

from .. import _absent
from .._absent import (
    device_count as device_count,
    empty_cache as empty_cache,
    is_available as is_available,
    is_initialized as is_initialized,
    manual_seed as manual_seed,
    manual_seed_all as manual_seed_all,
)
from . import amp as amp, nvtx as nvtx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Literal

    from pytpu import Tensor
    from pytpu._streams import Stream

default_generators = ()
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _absent.no_memory


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Always return `False`: there is no CUDA."""
    return False


def is_tf32_supported() -> bool:
    """Always return `False`: there is no CUDA."""
    return False


def is_current_stream_capturing() -> bool:
    """Always return `False`: there is no CUDA."""
    return False


def get_arch_list() -> list[str]:
    """None."""
    return []


def seed() -> None:
    """Do nothing: there are no generators to seed."""


seed_all = seed


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return an empty dictionary: no memory is allocated."""
    return collections.OrderedDict()


def get_rng_state_all() -> list[Tensor]:
    """One state a device: none."""
    return []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore the states that `get_rng_state_all` returned."""
    for _ in new_states:
        _none()


def _none(*_args: Any, **_kwargs: Any) -> Any:
    raise AssertionError("Torch not compiled with CUDA enabled")


current_device = get_device_capability = get_device_name = get_device_properties = set_device = synchronize = _none
current_stream = default_stream = init = _lazy_init = initial_seed = cudart = can_device_access_peer = _none
set_per_process_memory_fraction = memory_summary = memory_snapshot = _none
mem_get_info = ipc_collect = reset_peak_memory_stats = get_rng_state = set_rng_state = _none
graph_pool_handle = make_graphed_callables = get_stream_from_external = current_blas_handle = use_mem_pool = _none
get_sync_debug_mode = set_sync_debug_mode = caching_allocator_alloc = caching_allocator_delete = _none
reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = _none
memory_usage = utilization = temperature = power_draw = clock_rate = device_memory_used = _none


def _lazy_call(callable: Any, **kwargs: Any) -> None:
    """Keep a call for the time when CUDA begins, which it never does."""


def _refuse_class(name):
    """A class for annotations and `isinstance`, without instances."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError(f"Tried to instantiate dummy base class {name}")

    return type(
        name,
        (),
        {"__init__": __init__, "__module__": "torch.cuda", "__doc__": "Raises `RuntimeError` when it is made."},
    )


_REFUSED = ("Event", "Stream", "ExternalStream", "CUDAGraph", "graph", "MemPool")
Event, Stream, ExternalStream, CUDAGraph, graph, MemPool = map(_refuse_class, _REFUSED)


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
    """Context manager that chooses the device of a tensor if it is a device of CUDA, which no tensor is on."""

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
    """A `StreamContext`."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Choose a stream: there is none but `None`."""
    if stream is not None:
        _none()


def __getattr__(name):
    if name.endswith("Tensor"):
        from .._legacy import types

        globals().update(types("cuda"))
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module 'torch.cuda' has no attribute '{name}'")
