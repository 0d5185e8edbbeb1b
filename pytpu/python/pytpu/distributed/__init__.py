"""Training in several processes: stores, rendezvous, process groups and collectives.

Collectives run on tensors of device `cpu`, and of device `tpu` where it is XLA's CPU backend. Ranks of a host
exchange them through shared memory, others through TCP. `DistributedDataParallel` is in `torch.nn.parallel`.

Example:
    >>> import pytpu as torch
    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = torch.ones(2)
    >>> dist.all_reduce(x)
    >>> x
    tensor([1., 1.])
    >>> dist.destroy_process_group()
"""

from __future__ import annotations

from .._absent import absent_class
from .._C import (
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
    Work,
    _DistBackendError as DistBackendError,
    _DistError as DistError,
    _DistNetworkError as DistNetworkError,
    _DistQueueEmptyError as QueueEmptyError,
    _DistStoreError as DistStoreError,
)
from ._breakpoint import breakpoint
from ._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from ._grad_bucket import BuiltinCommHookType, GradBucket
from ._reducer import (
    _DEFAULT_FIRST_BUCKET_BYTES as _DEFAULT_FIRST_BUCKET_BYTES,
    Reducer,
    _broadcast_coalesced as _broadcast_coalesced,
    _compute_bucket_assignment_by_size as _compute_bucket_assignment_by_size,
)
from .constants import default_pg_timeout
from .distributed_c10d import (
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    Backend,
    BackendConfig,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    GroupMember,
    GroupName,
    P2POp,
    ProcessGroup,
    ProcessGroupGloo,
    ProcessGroupNCCL,
    ProcessGroupNCCL2,
    ProcessGroupNCCLLazy,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    _all_gather_base as _all_gather_base,
    _coalescing_manager as _coalescing_manager,
    _CoalescingManager as _CoalescingManager,
    _get_process_group_name as _get_process_group_name,
    _make_nccl_premul_sum as _make_nccl_premul_sum,
    _rank_not_in_group as _rank_not_in_group,
    _reduce_scatter_base as _reduce_scatter_base,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_object,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    broadcast_object_list,
    destroy_process_group,
    gather,
    gather_into_tensor,
    gather_object,
    gather_single,
    get_backend,
    get_backend_config,
    get_backend_impl,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    irecv,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    isend,
    monitored_barrier,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    record_comm,
    recv,
    recv_object_list,
    reduce,
    reduce_op,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
    send,
    send_object_list,
    set_timeout,
    shrink_group,
    split_group,
    supports_complex,
)
from .remote_device import _remote_device as remote_device
from .rendezvous import register_rendezvous_handler, rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WHY = "it is not implemented yet"

Logger = absent_class("torch._C._distributed_c10d.Logger", _WHY)
_Work = Work

__all__ = [
    "AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "Backend", "BackendConfig", "BarrierOptions",
    "BroadcastOptions", "BuiltinCommHookType", "DebugLevel", "DeviceMesh", "DistBackendError", "DistError",
    "DistNetworkError", "DistStoreError", "FileStore", "GatherOptions", "GradBucket", "GroupMember", "GroupName",
    "HashStore", "Logger", "P2POp", "PrefixStore", "ProcessGroup", "ProcessGroupGloo", "ProcessGroupNCCL",
    "ProcessGroupNCCL2", "ProcessGroupNCCLLazy", "QueueEmptyError", "ReduceOp", "ReduceOptions",
    "ReduceScatterOptions", "Reducer", "ScatterOptions", "Store", "TCPStore", "Work", "all_gather",
    "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "breakpoint",
    "broadcast", "broadcast_object_list", "default_pg_timeout", "destroy_process_group", "gather",
    "gather_into_tensor", "gather_object", "gather_single", "get_backend", "get_backend_config", "get_backend_impl",
    "get_debug_level", "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank",
    "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_device_mesh",
    "init_process_group", "irecv", "is_available", "is_backend_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "isend", "monitored_barrier", "new_group", "new_subgroups", "new_subgroups_by_enumeration", "record_comm", "recv",
    "recv_object_list", "reduce", "reduce_op", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor",
    "register_rendezvous_handler", "remote_device", "rendezvous", "scatter", "scatter_object_list", "send",
    "send_object_list", "set_debug_level", "set_debug_level_from_env", "set_timeout", "shrink_group", "split_group",
    "supports_complex",
]  # fmt: skip


def is_available() -> bool:
    """Return `True`: process groups are part of this package."""
    return True


def __getattr__(name: str) -> Any:
    if name in ("DeviceMesh", "init_device_mesh"):
        from . import device_mesh

        return getattr(device_mesh, name)
    if name in ("_Backend", "_test_python_store"):
        from . import _c_names

        return getattr(_c_names, name.replace("_Backend", "Backend"))
    raise AttributeError(f"module 'torch.distributed' has no attribute '{name}'")
