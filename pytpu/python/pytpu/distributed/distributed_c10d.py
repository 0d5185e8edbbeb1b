"""Process groups and the collectives that ranks run on tensors: all names of this module in PyTorch that exist here."""

from __future__ import annotations

import sys
import types

from .._C import PrefixStore, Store, Work
from ._backend import (
    Backend,
    BackendConfig,
    get_default_backend_for_device,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_ucc_available,
    is_xccl_available,
)
from ._checked_group import (
    _create_process_group_wrapper as _create_process_group_wrapper,
    _ProcessGroupWrapper as _ProcessGroupWrapper,
)
from ._collectives import (
    _all_gather_base as _all_gather_base,
    _canonicalize_group_rank as _canonicalize_group_rank,
    _check_single_tensor as _check_single_tensor,
    _check_tensor_list as _check_tensor_list,
    _coalescing_manager as _coalescing_manager,
    _CoalescingManager as _CoalescingManager,
    _CollOp as _CollOp,
    _dump_fr_trace as _dump_fr_trace,
    _ensure_all_tensors_same_dtype as _ensure_all_tensors_same_dtype,
    _reduce_scatter_base as _reduce_scatter_base,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    gather_into_tensor,
    gather_single,
    monitored_barrier,
    record_comm,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from ._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from ._groups import (
    STORE_BASED_BARRIER_PREFIX as STORE_BASED_BARRIER_PREFIX,
    GroupMember,
    GroupName,
    _abort_process_group as _abort_process_group,
    _check_valid_timeout as _check_valid_timeout,
    _device_capability as _device_capability,
    _find_or_create_pg_by_ranks_and_tag as _find_or_create_pg_by_ranks_and_tag,
    _find_pg_by_ranks_and_tag as _find_pg_by_ranks_and_tag,
    _get_default_group as _get_default_group,
    _get_default_store as _get_default_store,
    _get_default_timeout as _get_default_timeout,
    _get_global_rank as _get_global_rank,
    _get_group_size as _get_group_size,
    _get_group_tag as _get_group_tag,
    _get_object_coll_device as _get_object_coll_device,
    _get_pg_config as _get_pg_config,
    _get_pg_default_device as _get_pg_default_device,
    _get_process_group_name as _get_process_group_name,
    _get_process_group_store as _get_process_group_store,
    _group_or_default_group as _group_or_default_group,
    _new_group_with_tag as _new_group_with_tag,
    _process_group_name as _process_group_name,
    _rank_not_in_group as _rank_not_in_group,
    _resolve_process_group as _resolve_process_group,
    _set_pg_timeout as _set_pg_timeout,
    _store_based_barrier as _store_based_barrier,
    _use_world as _use_world,
    _World as _World,
    _world as _world,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_backend_impl,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    is_torchelastic_launched,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    set_timeout,
    shrink_group,
    split_group,
)
from ._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from ._methods import _on_device as _on_device
from ._objects import (
    _object_to_tensor as _object_to_tensor,
    _tensor_to_object as _tensor_to_object,
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
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
from ._reduce_op import RedOpType, ReduceOp, _make_nccl_premul_sum as _make_nccl_premul_sum, reduce_op, supports_complex
from .constants import default_pg_timeout
from .rendezvous import register_rendezvous_handler, rendezvous


class _WorldIsReplaced(types.ModuleType):
    """This module. Setting `_world` replaces the groups of this process everywhere."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_world":
            _use_world(value)
        super().__setattr__(name, value)


sys.modules[__spec__.name].__class__ = _WorldIsReplaced


def __getattr__(name: str) -> Any:
    if name in ("_Backend", "_create_work_from_future"):
        from . import _made_groups

        return getattr(_made_groups, name)
    raise AttributeError(f"module 'torch.distributed.distributed_c10d' has no attribute '{name}'")


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Whether the package `torchcomms` makes the engines. It cannot.
_TORCHCOMM_AVAILABLE = False

__all__ = [
    "AllToAllOptions",
    "AllgatherOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "Backend",
    "BackendConfig",
    "BarrierOptions",
    "BroadcastOptions",
    "DebugLevel",
    "GatherOptions",
    "GroupMember",
    "GroupName",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "ProcessGroupGloo",
    "RedOpType",
    "ReduceOp",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
    "Store",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_into_tensor",
    "gather_object",
    "gather_single",
    "get_backend",
    "get_backend_config",
    "get_backend_impl",
    "get_debug_level",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "record_comm",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "register_rendezvous_handler",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "set_debug_level",
    "set_debug_level_from_env",
    "set_timeout",
    "shrink_group",
    "split_group",
    "supports_complex",
]
