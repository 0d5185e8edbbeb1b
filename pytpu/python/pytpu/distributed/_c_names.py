"""The names of `torch._C._distributed_c10d`. Some are of the compiled module, and some are written in Python."""

from __future__ import annotations

from .._absent import absent_class
from .._C import FileStore, HashStore, PrefixStore, Store, TCPStore, Work
from . import Logger
from ._collectives import _get_comm_profiling_name
from ._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from ._grad_bucket import BuiltinCommHookType, GradBucket
from ._groups import _resolve_process_group
from ._made_groups import (
    FakeProcessGroup,
    FakeStore,
    _Backend as Backend,
    _BackendOptions as _DistributedBackendOptions,
    _create_work_from_future,
)
from ._options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from ._process_group import ProcessGroup, ProcessGroupGloo
from ._reduce_op import ReduceOp, _make_nccl_premul_sum
from ._reducer import (
    _DEFAULT_FIRST_BUCKET_BYTES,
    Reducer,
    _broadcast_coalesced,
    _compute_bucket_assignment_by_size,
)
from .constants import default_pg_timeout as _DEFAULT_PG_TIMEOUT

_WHY = "it is not implemented yet"


class _SymmetricMemory(absent_class("torch._C._distributed_c10d._SymmetricMemory", _WHY)):
    """Memory that several devices share. There is none."""

    @staticmethod
    def has_multicast_support(device_type: object, device_idx: int) -> bool:
        """Return `False`."""
        return False


def _test_python_store(store: Store) -> None:
    """Call a store of a Python class from the extension. Raise `AssertionError` if a value is not what was set."""
    prefixed = PrefixStore("test", store)
    for amount in (1, 2, 3):
        prefixed.add("counter", amount)
    prefixed.set("key", "value")
    if prefixed.get("counter") != b"6" or prefixed.get("key") != b"value":
        raise AssertionError("the store returned another value than it was given")


def _set_thread_isolation_mode(enable: bool) -> None:
    """Do nothing: groups are found through `distributed_c10d._world`, which programs with rank threads replace."""


__all__ = [
    "AllToAllOptions",
    "AllgatherOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "Backend",
    "BarrierOptions",
    "BroadcastOptions",
    "BuiltinCommHookType",
    "DebugLevel",
    "FakeProcessGroup",
    "FakeStore",
    "FileStore",
    "GatherOptions",
    "GradBucket",
    "HashStore",
    "Logger",
    "PrefixStore",
    "ProcessGroup",
    "ProcessGroupGloo",
    "ReduceOp",
    "ReduceOptions",
    "ReduceScatterOptions",
    "Reducer",
    "ScatterOptions",
    "Store",
    "TCPStore",
    "Work",
    "_DEFAULT_FIRST_BUCKET_BYTES",
    "_DEFAULT_PG_TIMEOUT",
    "_DistributedBackendOptions",
    "_broadcast_coalesced",
    "_compute_bucket_assignment_by_size",
    "_create_work_from_future",
    "_get_comm_profiling_name",
    "_make_nccl_premul_sum",
    "_resolve_process_group",
    "_test_python_store",
    "get_debug_level",
    "set_debug_level",
    "set_debug_level_from_env",
]
