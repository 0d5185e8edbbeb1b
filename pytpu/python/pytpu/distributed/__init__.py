"""Stores and rendezvous of several processes.

Training in several processes is not implemented yet: `is_available()` is false, and scripts that check it go on
without.

`init_process_group` raises `RuntimeError`. No process is in a group, so functions that need one raise the `ValueError`
that PyTorch raises before a group is made.
"""

import enum
import os

from .._absent import absent_class
from .._C import (
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
    _DistBackendError as DistBackendError,
    _DistError as DistError,
    _DistNetworkError as DistNetworkError,
    _DistQueueEmptyError as QueueEmptyError,
    _DistStoreError as DistStoreError,
)
from .constants import default_pg_timeout
from .rendezvous import register_rendezvous_handler, rendezvous

_WHY = "training in several processes is not implemented yet"
_CALLS = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single",
    "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "gather", "gather_object", "get_backend",
    "get_global_rank",
    "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size", "irecv", "isend", "monitored_barrier",
    "new_group",
    "new_subgroups", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list",
    "send",
)  # fmt: skip
__all__ = [
    *_CALLS, "Backend", "DeviceMesh", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError",
    "FileStore", "GroupMember", "HashStore", "P2POp", "PrefixStore", "ProcessGroup", "QueueEmptyError", "ReduceOp",
    "Store", "TCPStore", "Work", "default_pg_timeout", "destroy_process_group", "group", "init_device_mesh",
    "init_process_group", "is_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available", "register_rendezvous_handler", "rendezvous",
]  # fmt: skip


def is_available():
    """Return whether processes can form a group, which is not implemented."""
    return False


def is_initialized():
    """Always return ``False``: this process is not in a group."""
    return False


def is_torchelastic_launched():
    """Return whether ``torchrun`` started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def init_process_group(*args, **kwargs):
    """Raise `RuntimeError`."""
    raise RuntimeError("torch.distributed is not available: training in several processes is not implemented yet")


def destroy_process_group(group=None):
    """Raise `ValueError`: there is no group."""
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def is_nccl_available():
    """Return ``False``: collectives of NCCL are not part of this package."""
    return False


def is_gloo_available():
    """Return ``False``: collectives of Gloo are not part of this package."""
    return False


def is_mpi_available():
    """Return ``False``: collectives of MPI are not part of this package."""
    return False


def is_ucc_available():
    """Return ``False``: collectives of UCC are not part of this package."""
    return False


def is_xccl_available():
    """Return ``False``: collectives of XCCL are not part of this package."""
    return False


class ReduceOp(enum.IntEnum):
    """Operations that reduce the values of several processes to one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = range(10)


class Backend(str):
    """Return the name of a set of collectives, in lower case."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL, FAKE = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]

    def __new__(cls, name):
        """Return the name in lower case."""
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())


class group:
    """The group of all processes, which does not exist."""

    WORLD = None


class GroupMember:
    """The group of this process, which does not exist."""

    WORLD = None
    NON_GROUP_MEMBER = -100


ProcessGroup = absent_class("torch.distributed.ProcessGroup", _WHY)
Work = absent_class("torch.distributed.Work", _WHY)
P2POp = absent_class("torch.distributed.P2POp", _WHY)


def _of_a_group(name):
    def call(*args, **kwargs):
        destroy_process_group()

    call.__name__ = call.__qualname__ = name
    call.__doc__ = destroy_process_group.__doc__
    return call


for _name in _CALLS:
    globals()[_name] = _of_a_group(_name)
del _name


def __getattr__(name):
    if name in ("DeviceMesh", "init_device_mesh"):
        from . import device_mesh

        return getattr(device_mesh, name)
    raise AttributeError(f"module 'torch.distributed' has no attribute '{name}'")
