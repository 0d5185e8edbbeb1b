"""The groups of this process: their start and end, and questions about them."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import hashlib
import io
import operator
import os
import sys
import warnings

from .. import accelerator, device as _device
from .._C import HashStore, PrefixStore, Store, _accelerator_join, _plan_devices, _rendezvous_announce, _rendezvous_wait
from ._backend import Backend, BackendConfig
from ._methods import _is_native
from ._process_group import ProcessGroup, ProcessGroupGloo
from .constants import default_pg_timeout
from .rendezvous import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Any

    from ._collectives import _CollOp

#: The name of a group, a `str`.
GroupName = str

#: The first part of the key of a barrier in a store.
STORE_BASED_BARRIER_PREFIX = "store_based_barrier_key"


class _World:
    """The groups of this process."""

    def __init__(self) -> None:
        self.default_pg: ProcessGroup | None = None
        #: Backend name and store of each group.
        self.pg_map: dict[ProcessGroup, tuple[str, Store]] = {}
        self.pg_names: dict[ProcessGroup, str] = {}
        #: The rank in the group of each global rank.
        #: `GroupMember.NON_GROUP_MEMBER` has the ranks of the last group that this rank is not in.
        self.pg_group_ranks: dict[ProcessGroup | int, dict[int, int]] = {}
        self.pg_backend_config: dict[ProcessGroup, str] = {}
        self.tags_to_pg: dict[str, list[ProcessGroup]] = {}
        self.pg_to_tag: dict[ProcessGroup, str] = {}
        #: Collectives of each group that a `_coalescing_manager` holds back.
        self.pg_coalesce_state: dict[ProcessGroup, list[_CollOp]] = {}
        #: Groups named so far.
        self.group_count = 0

    @property
    def pg_config_info(self) -> list[dict[str, Any]]:
        """Name, description, backends and ranks of each group."""
        world = self.default_pg.size() if self.default_pg is not None else 0
        return [
            {
                "pg_name": self.pg_names[pg],
                "pg_desc": pg.group_desc,
                "backend_config": self.pg_backend_config[pg],
                "ranks": [] if len(ranks) == world else list(ranks),
                "group_size": len(ranks),
                "group_count": self.group_count,
            }
            for pg, ranks in self.pg_group_ranks.items()
            if pg in self.pg_map
        ]


_world = _World()


def _use_world(world: Any) -> None:
    """Replace the groups of this process. Another object may have those of each thread, to run ranks as threads."""
    global _world
    _world = world


def _are_threads() -> bool:
    """Return whether ranks are threads: a program has replaced the groups of the process by those of each thread."""
    return not isinstance(_world, _World)


def _add_to_world(pg: ProcessGroup, backend: str, ranks: dict[int, int], tag: str | None = None) -> None:
    """Register a group."""
    _world.pg_map[pg] = (backend, pg.get_group_store())
    if ":" not in backend and backend != Backend.UNDEFINED:
        pg._backend_name = str(backend)
    # A class of the program may ask the world for the name.
    _world.pg_names[pg] = pg._name or ""
    _world.pg_group_ranks[pg] = ranks
    _world.pg_backend_config[pg] = ",".join(f"{kind}:{name}" for kind, name in pg._device_backends.items())
    tag = f"user:{tag}" if tag else f"ptd:{pg._name}"
    if tag.startswith("ptd:"):
        _world.tags_to_pg.setdefault("", []).append(pg)
    _world.tags_to_pg.setdefault(tag, []).append(pg)
    _world.pg_to_tag[pg] = tag


def _remove_from_world(pg: ProcessGroup) -> None:
    """Forget a group."""
    for groups in (_world.pg_map, _world.pg_names, _world.pg_group_ranks, _world.pg_backend_config):
        del groups[pg]
    _world.pg_coalesce_state.pop(pg, None)
    tag = _world.pg_to_tag.pop(pg)
    for name in {tag, ""}:
        with contextlib.suppress(ValueError):
            _world.tags_to_pg.get(name, []).remove(pg)


class _Counts:
    """The numbers of groups made from the group of all ranks, for their names."""

    def __init__(self) -> None:
        #: Groups that all ranks have made, with the group of all ranks.
        self.agreed = 1
        #: Groups that only their own ranks have made, by their ranks.
        self.own: dict[tuple[int, ...], int] = {}


class _WorldMeta(type):
    """Gives `group` and `GroupMember` the property `WORLD`."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all ranks, or `None` before `init_process_group`."""
        return _world.default_pg

    @WORLD.setter
    def WORLD(cls, pg: ProcessGroup | None) -> None:
        _world.default_pg = pg


class group(metaclass=_WorldMeta):
    """`group.WORLD` is the group of all ranks, or `None` before `init_process_group`."""


class GroupMember(metaclass=_WorldMeta):
    """`GroupMember.WORLD` is the group of all ranks, or `None` before `init_process_group`."""

    #: What `new_group` returns on ranks that are not in the new group.
    NON_GROUP_MEMBER = -100


def is_initialized() -> bool:
    """Return whether `init_process_group` has made the group of all ranks."""
    return _world.default_pg is not None


def is_torchelastic_launched() -> bool:
    """Return whether `torchrun` started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _get_default_group() -> ProcessGroup:
    """Return the group of all ranks."""
    if _world.default_pg is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _world.default_pg


def _get_default_store() -> Store:
    """Return the store of the group of all ranks."""
    return _world.pg_map[_get_default_group()][1]


def _group_or_default_group(group: ProcessGroup | None = None) -> ProcessGroup:
    return _get_default_group() if group is None or group is _world.default_pg else group


def _rank_not_in_group(group: ProcessGroup | int | None) -> bool:
    """Return whether a group is `GroupMember.NON_GROUP_MEMBER`."""
    return group is not None and not isinstance(group, ProcessGroup) and group == GroupMember.NON_GROUP_MEMBER


def _member(group: ProcessGroup | None, op: str) -> ProcessGroup | None:
    """Return the group of a call, or `None` after a warning if this rank is not in it."""
    if group is None:
        return _get_default_group()
    if _rank_not_in_group(group):
        rank = _world.default_pg.rank() if _world.default_pg is not None else -1
        text = f"Running {op} on global rank {rank} which does not belong to the given group."
        warnings.warn(text, stacklevel=3)
        return None
    return group


def _check_valid_timeout(timeout: object) -> None:
    if not isinstance(timeout, datetime.timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")


def _get_default_timeout(backend: str) -> datetime.timedelta:
    return default_pg_timeout


class _RankInTracebacks:
    """A hook that starts each line of a traceback with the rank, and tells the other ranks what was raised."""

    def __init__(self, rank: int) -> None:
        self.start, self.inner = f"[rank{rank}]: ", sys.excepthook

    def __call__(self, kind, error, traceback):
        """Show an exception that ends the program."""
        stderr, text = sys.stderr, io.StringIO()
        sys.stderr = text
        try:
            self.inner(kind, error, traceback)
        finally:
            sys.stderr = stderr
        stderr.write("\n".join(self.start + line if line else "" for line in text.getvalue().split("\n")))
        stderr.flush()
        _tell_exception(error, traceback)


def _tell_exception(error: BaseException, trace: TracebackType | None) -> None:
    """Break all groups with an exception as the reason, so that ranks that wait for this one raise it."""
    if _process != os.getpid():
        return
    import traceback  # Takes time, and is needed once.

    text = traceback.format_exception_only(error)[-1].strip()
    frames = traceback.extract_tb(trace)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    for pg in list(_world.pg_map):
        # A group may be broken or left already.
        with contextlib.suppress(Exception):
            pg._engine.abort(f"{text}{place}")


def _device_of(device_id: _device | int | None) -> _device | None:
    """Check the argument `device_id` of `init_process_group`, and return the device."""
    current = accelerator._device()
    if isinstance(device_id, int):
        device_id = _device(current.type if current is not None else "cpu", device_id)
    if device_id is None or device_id.type == "cpu":
        return device_id
    if current is None or device_id.type != current.type:
        raise ValueError(
            f"device_id {device_id} does not match the current compilation's accelerator support: {current}. "
            "Please use a different compiled version that supports your accelerator."
        )
    if device_id.index is None:
        raise ValueError("Please use a device_id with index.")
    return device_id


def _planned_place(rank: int, world_size: int) -> tuple[int, int]:
    """Return this rank and the number of ranks of a group that only this rank is in."""
    devices = sorted(set(_plan_devices()))
    if world_size <= 0:
        world_size = int(os.environ.get("WORLD_SIZE", -1))
    if world_size <= 0 and len(devices) > 1:
        raise ValueError(
            f"init_process_group: world_size: the machines of the plan have {devices} devices, so state one"
        )
    if world_size <= 0:
        world_size = devices[0] if devices else 1
    rank = int(os.environ.get("RANK", 0)) if rank < 0 else rank
    if rank >= world_size:
        raise ValueError(f"init_process_group: rank: {rank}, must be less than world_size {world_size}")
    return rank, world_size


def _join_accelerator(store: Store, rank: int, world_size: int) -> None:
    """Prepare the client of an accelerator, which the processes make together at the first tensor on it."""
    towards = f"{os.environ.get('MASTER_ADDR', 'localhost')}:{os.environ.get('MASTER_PORT', '1')}"
    for name, value in _accelerator_join(store, rank, world_size, towards):
        os.environ.setdefault(name, value)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: datetime.timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: object | None = None,
    device_id: _device | int | None = None,
    _ranks: list[int] | None = None,
) -> None:
    """Make the group of all ranks, and wait until all of them are here.

    Within `torch.tpu.plan` only this rank exists. It waits for no other rank, and the others count as doing what it
    does. `rank` is then 0 if nothing says it, and `world_size` is the number of
    devices of the plan.

    Args:
        backend: `"gloo"` for tensors on device `cpu`, `"xla"` or `"tpu_dist"` for `tpu`, or pairs such as
            `"cpu:gloo,tpu:xla"`, which is the default. `"nccl"` counts as `"xla"`, and warns. `"mpi"` sends by
            an MPI library, between processes that `mpiexec` or `srun` has started.
        init_method: a URL for `rendezvous`. The default is `env://`. MPI needs none.
        timeout: the limit of this call and of each collective, a `datetime.timedelta`. The default is 30 minutes.
        world_size: the number of ranks, if `store` is given or the URL does not say it.
        rank: this rank, from 0, if `store` is given or the URL does not say it.
        store: the store in which the ranks meet, instead of `init_method`.
        group_name: accepted, and not used, as in PyTorch.
        pg_options: options of a backend of `Backend.register_backend`. Others do not use them.
        device_id: the device of this rank.

    Raises:
        ValueError: if there is a group already, or a backend is not known.
        RuntimeError: if a backend of PyTorch's is not part of this package.
        DistStoreError: if ranks are missing after `timeout`. It names them.
        DistNetworkError: if the store cannot be reached.

    Example:
        >>> import pytpu as torch
        >>> store = torch.distributed.HashStore()
        >>> torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> torch.distributed.get_world_size()
        1
        >>> torch.distributed.destroy_process_group()
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
    bound = _device_of(device_id)
    if backend is None and bound is not None and bound.type == "cpu":
        backend = "gloo"
    config = BackendConfig(Backend(Backend.UNDEFINED if backend is None else backend))
    timeout = default_pg_timeout if timeout is None else timeout
    _check_valid_timeout(timeout)
    is_planned = bool(_plan_devices()) and _is_own(config)
    if is_planned:
        rank, world_size = _planned_place(rank, world_size)
        store = HashStore() if store is None else store
    elif store is None and init_method is None and set(config.get_device_backend_map().values()) == {Backend.FAKE}:
        from ._made_groups import FakeStore

        store = FakeStore()
    if not is_planned and config.device_backend_map.get("cpu") == Backend.MPI:
        if world_size != -1 or rank != -1:
            warnings.warn(
                f"For MPI backend, world_size ({world_size}) and rank ({rank}) are ignored since they are assigned by "
                "the MPI runtime.",
                stacklevel=2,
            )
        from . import _mpi

        own_store, rank, world_size = _mpi._start(timeout)
        store = own_store if store is None else store
    elif store is None:
        store, rank, world_size = next(rendezvous(init_method or "env://", rank, world_size, timeout=timeout))
        store.set_timeout(timeout)
    store = PrefixStore("default_pg", store)
    # A store may have served an earlier group of these ranks, whose keys are still there.
    attempt = store.add(f"attempt/{rank}", 1)
    store = PrefixStore(str(attempt), store)
    if _is_own(config) and not is_planned:
        _rendezvous_announce(store, rank)
        _rendezvous_wait(store, world_size, timeout)
        if config.get_device_backend_map().get("tpu") in (Backend.XLA, Backend.TPU_DIST):
            _join_accelerator(store, rank, world_size)
    _world.group_count = 1
    name = _hashed_name(_ranks, 0) if _ranks else "0"
    pg = _make_group(
        store,
        rank,
        list(range(world_size)),
        name,
        "default_pg",
        timeout,
        config,
        bound,
        options=pg_options,
        is_planned=is_planned,
    )
    pg._counts = _Counts()
    _world.default_pg = pg
    _add_to_world(pg, Backend(Backend.UNDEFINED if backend is None else backend), {i: i for i in range(world_size)})
    _prepare_end(rank)


#: The process that made the groups. A fork of it has copies, which it must leave alone.
_process = 0


def _prepare_end(rank: int) -> None:
    """Let the end of this process leave its groups, and an exception that ends it reach the other ranks."""
    global _process
    _process = os.getpid()
    sys.excepthook = _RankInTracebacks(rank)
    atexit.register(_close_all)
    _close_at_the_end_of_a_child()


def _close_all() -> None:
    """Leave all groups of this process, so that ranks that wait for this one are told at once."""
    if _process == os.getpid():
        _shut_down(list(_world.pg_map))


def _shut_down(groups: list[ProcessGroup]) -> None:
    """Leave several groups.

    Before one waits for other ranks, which may wait in another group, all have launched what is recorded, and those
    without a collective in flight have told that this rank leaves.

    Raises:
        Exception: the first error, when all groups are left.
    """
    errors = []

    def each(leave: Callable[[ProcessGroup], None]) -> None:
        for pg in groups:
            try:
                leave(pg)
            except Exception as error:
                errors.append(error)

    each(lambda pg: pg._trace.close() if pg._trace is not None else None)
    for wait in (False, True):
        each(lambda pg, wait=wait: pg._engine.finish(wait) if _is_native(pg._engine) else None)
    each(lambda pg: pg.shutdown())
    if errors:
        raise errors[0]


def _close_at_the_end_of_a_child() -> None:
    """Leave all groups when this process ends, if `multiprocessing` has forked it.

    Such a process calls no functions of `atexit`, and `sys.excepthook` neither.
    """
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:
        return
    from multiprocessing import util

    util.Finalize(None, _end_child, exitpriority=0)


def _end_child() -> None:
    error = sys.exc_info()[1]
    if error is not None and not isinstance(error, SystemExit):
        _tell_exception(error, error.__traceback__)
    _close_all()


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave a group. Without `group`, or with the group of all ranks, leave all groups.

    Raises:
        AssertionError: if there is no group.
        ValueError: if `group` is no group, or was left already.
    """
    if _rank_not_in_group(group):
        return
    pg = _world.default_pg if group is None else group
    if pg is None:
        raise AssertionError("Process group cannot be None")
    if pg not in _world.pg_map:
        raise ValueError("Invalid process group specified")
    if pg is not _world.default_pg:
        if pg in _world.pg_coalesce_state:
            text = (
                "Some coalesced collectives haven't been launched when ProcessGroup is destroyed. They will be cleaned."
            )
            warnings.warn(text, stacklevel=2)
        pg.shutdown()
        _remove_from_world(pg)
        return
    # Groups that were made last are left first.
    groups = list(_world.pg_map)[::-1]
    try:
        _shut_down(groups)
    finally:
        for each in groups:
            _remove_from_world(each)
        _world.default_pg, _world.group_count = None, 0
        _world.pg_group_ranks.clear()
        atexit.unregister(_close_all)
        if isinstance(sys.excepthook, _RankInTracebacks):
            sys.excepthook = sys.excepthook.inner


def _abort_process_group(group: ProcessGroup | None = None) -> None:
    """Break a group on all ranks, and leave it. Without `group`, do so for all groups."""
    for pg in [group] if group not in (None, _world.default_pg) else list(_world.pg_map):
        pg.abort()
    destroy_process_group(group)


# Queries


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return this rank in `group`, or in the group of all ranks. Return -1 if it is not in `group`."""
    if group is None:
        return _get_default_group().rank()
    if _rank_not_in_group(group):
        return -1
    default = _get_default_group()
    return default.rank() if group is default else get_group_rank(group, default.rank())


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of ranks of `group`, or of the group of all ranks. Return -1 if this rank is not in it."""
    if _rank_not_in_group(group):
        return -1
    return _group_or_default_group(group).size()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the number of this process on its host, which `torchrun` sets in `LOCAL_RANK`.

    Raises:
        RuntimeError: if `LOCAL_RANK` is not set, and `fallback_rank` is not given.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )


def get_backend(group: ProcessGroup | None = None) -> str:
    """Return the backend that was given for `group`, in lower case."""
    pg = group or _get_default_group()
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    if pg not in _world.pg_map:
        raise ValueError(
            f"Process group {pg} is not initialized in the world group map. Please initialize the group first."
        )
    return _world.pg_map[pg][0]


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """Return the backend of each kind of device, such as `cpu:gloo,tpu:xla`."""
    pg = group or _get_default_group()
    if pg not in _world.pg_map:
        raise ValueError("Invalid process group specified")
    return _world.pg_backend_config[pg]


def get_backend_impl(group: str | ProcessGroup | None = None, device: _device | None = None) -> ProcessGroupGloo:
    """Return the engine of a group, or of the group of a name, for a device."""
    pg = _resolve_process_group(group) if isinstance(group, str) else group or _get_default_group()
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    return pg.get_backend(device or pg.bound_device_id or "cpu")


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Return the global ranks of a group, in the order of its ranks."""
    return list(_world.pg_group_ranks[group or _get_default_group()])


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank in `group` of a global rank."""
    if group is _world.default_pg:
        return global_rank
    ranks = _registered(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks[global_rank]


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the global rank of a rank in `group`."""
    if group is _world.default_pg:
        return group_rank
    for global_rank, rank in _registered(group).items():
        if rank == group_rank:
            return global_rank
    raise ValueError(f"Group rank {group_rank} is not part of group {group}")


def _get_global_rank(group: ProcessGroup, rank: int) -> int:
    """The old name of `get_global_rank`."""
    return get_global_rank(group, rank)


def _registered(group: ProcessGroup) -> dict[int, int]:
    if group not in _world.pg_group_ranks:
        text = f"Group {group} is not registered, please create group with torch.distributed.new_group API"
        raise ValueError(text)
    return _world.pg_group_ranks[group]


def _get_pg_config(group: ProcessGroup | None = None) -> dict[str, Any]:
    """Return name, description, backends and ranks of a group."""
    pg = group or _get_default_group()
    return {
        "pg_name": _get_process_group_name(pg),
        "pg_desc": pg.group_desc,
        "backend_config": get_backend_config(pg),
        "pg_size": pg.size(),
        "ranks": get_process_group_ranks(pg),
    }


def get_pg_count() -> int:
    """Return the number of groups that this process has named."""
    return _world.group_count


def set_timeout(timeout: datetime.timedelta, group: ProcessGroup | None = None) -> None:
    """Set the limit of later collectives of `group`, or of the group of all ranks."""
    _check_valid_timeout(timeout)
    pg = group or _get_default_group()
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    pg.set_timeout(timeout)


def _set_pg_timeout(timeout: datetime.timedelta, group: ProcessGroup | None = None) -> None:
    """The old name of `set_timeout`."""
    set_timeout(timeout, group)


def _get_group_size(group: ProcessGroup | None) -> int:
    return _group_or_default_group(group).size()


def _get_process_group_name(pg: ProcessGroup) -> str:
    return _world.pg_names.get(pg, "None")


def _get_process_group_store(pg: ProcessGroup) -> Store:
    return _world.pg_map[pg][1]


def _get_group_tag(pg: ProcessGroup) -> str:
    """Return the tag of a group, without the prefix of tags of users."""
    return _world.pg_to_tag[pg].removeprefix("user:")


def _resolve_process_group(group_name: str) -> ProcessGroup:
    """Return the group of a name."""
    for pg, name in _world.pg_names.items():
        if name == group_name:
            return pg
    raise RuntimeError(f"Could not resolve the process group registered under the name {group_name}")


def _find_pg_by_ranks_and_tag(tag: str, ranks: list[int]) -> ProcessGroup | None:
    """Return a group of the given tag and ranks, if there is one."""
    if tag and not tag.startswith(("ptd:", "user:")):
        tag = f"user:{tag}"
    for pg in _world.tags_to_pg.get(tag, []):
        if pg.size() == len(ranks) and set(get_process_group_ranks(pg)) == set(ranks):
            return pg
    return None


def _find_or_create_pg_by_ranks_and_tag(tag: str, ranks: list[int], stride: int) -> ProcessGroup:
    """Return the group of this rank among groups of `stride` ranks each."""
    if len(ranks) % stride:
        raise ValueError(f"group_size ({len(ranks)}) must be divisible by stride ({stride})")
    rank = get_rank()
    mine = next(sorted(ranks[i : i + stride]) for i in range(0, len(ranks), stride) if rank in ranks[i : i + stride])
    found = _find_pg_by_ranks_and_tag(tag, mine)
    made = _new_group_with_tag(mine, pg_tag=tag, use_local_synchronization=True) if found is None else found
    assert isinstance(made, ProcessGroup), "this rank is in the group that it asks for"
    return made


def _get_object_coll_device(group: ProcessGroup | None = None) -> str:
    """Return the kind of device of tensors that carry objects."""
    kinds = [device.type for device in _group_or_default_group(group)._device_types]
    return "cpu" if "cpu" in kinds else kinds[0]


def _get_pg_default_device(group: ProcessGroup | None = None) -> _device:
    """Return the device of tensors that carry objects."""
    return _device(_get_object_coll_device(group))


def _device_capability(group: ProcessGroup | None = None) -> list[str]:
    """Return the kinds of device that a group serves."""
    return [device.type for device in _group_or_default_group(group)._device_types]


# New groups


def _process_group_name(ranks: Sequence[int], use_hashed_name: bool) -> str:
    """Return a name that no other group of this job has, the same on all ranks of the group."""
    _world.group_count += 1
    counts = _get_default_group()._counts
    if not use_hashed_name:
        counts.agreed += 1
        return str(counts.agreed - 1)
    # Other ranks do not know of this group, so that only its own ranks count it.
    made = counts.own.get(tuple(ranks), 0)
    counts.own[tuple(ranks)] = made + 1
    return _hashed_name(ranks, made)


def _hashed_name(ranks: Sequence[int], made: int) -> str:
    return hashlib.sha1("_".join(map(str, [*ranks, made])).encode(), usedforsecurity=False).hexdigest()


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: object | None = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: _device | None = None,
    sort_ranks: bool = True,
) -> ProcessGroup | int:
    """Make a group of some ranks.

    All ranks call it, also those that are not in the new group, in the same order and with the same `ranks`. If they
    do not, all of them get an error.

    Args:
        ranks: global ranks. `None` takes all.
        timeout: the limit of each collective. The default is 30 minutes.
        backend: as for `init_process_group`. The default is that of the group of all ranks.
        pg_options: accepted, and not used.
        use_local_synchronization: whether only the ranks of the new group call it.
        group_desc: a description, for `ProcessGroup.group_desc`.
        device_id: the device of this rank.
        sort_ranks: whether the ranks of the new group are numbered by global rank, or by their place in `ranks`.

    Returns:
        The group, or `GroupMember.NON_GROUP_MEMBER` on ranks that are not in it.

    Raises:
        ValueError: if `ranks` has duplicates, or ranks that do not exist.
        DistBackendError: if the ranks call it with different `ranks`.
    """
    return _new_group_with_tag(
        ranks, timeout, backend, pg_options, None, use_local_synchronization, group_desc, device_id, sort_ranks
    )


def _new_group_with_tag(
    ranks: Sequence[int] | None = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    backend_options: object | None = None,
    pg_tag: str | None = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: _device | None = None,
    sort_ranks: bool = True,
    partition: list[list[int]] | None = None,
) -> ProcessGroup | int:
    """Make a group with a tag. See `new_group`.

    Args:
        partition: the ranks of all groups that are made together with this one, if no rank is in two of them.
    """
    default = _get_default_group()
    rank, size = default.rank(), default.size()
    given = _world.pg_map[default][0] if not backend else backend
    config = BackendConfig(Backend(given))
    timeout = default_pg_timeout if timeout is None else timeout
    _check_valid_timeout(timeout)
    if ranks is None:
        ranks = list(range(size))
    else:
        try:
            ranks = [operator.index(rank) for rank in ranks]
        except TypeError as error:
            raise TypeError("ranks must be a sequence of integers") from error
        ranks = sorted(ranks) if sort_ranks else ranks
    if use_local_synchronization and rank not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"ranks list must not contain duplicate entries, got {ranks}")
    if len(ranks) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for each in ranks:
        if not 0 <= each < size:
            limits = f"Valid ranks are 0 to {size - 1} (world_size={size})"
            raise ValueError(f"Rank {each} is out of range. {limits}")
    if rank not in ranks:
        _world.pg_group_ranks[GroupMember.NON_GROUP_MEMBER] = {rank: i for i, rank in enumerate(ranks)}
    name = _process_group_name(ranks, use_local_synchronization)
    if not use_local_synchronization:
        default._engine.agree(str(list(ranks)))
    make = getattr(default, "new_group", None)
    if make is not None:
        # A class of the program makes its groups itself.
        description = group_desc or "undefined"
        made = make(ranks, timeout, given, backend_options, group_name=name, group_desc=description)
        if made is None or rank not in ranks:
            return GroupMember.NON_GROUP_MEMBER
        made._set_group_name(name)
        made._set_group_desc(description)
        _add_to_world(made, Backend(given), {rank: i for i, rank in enumerate(ranks)}, pg_tag)
        return made
    if rank not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    if partition is not None and sort_ranks:
        partition = [sorted(group) for group in partition]
    there = _find_pg_by_ranks_and_tag(pg_tag, list(ranks)) if pg_tag else None
    if there is not None:
        return there
    return _register(
        default, name, ranks, given, config, timeout, group_desc, device_id, pg_tag, backend_options, partition
    )


def _partition_of(
    ranks: list[int], given: list[list[int]] | None, size: int, is_planned: bool
) -> list[list[int]] | None:
    """Return the groups that run a collective of `ranks` together, or `None` for `ranks` alone.

    The program of a plan is that of all ranks. Ranks that no group names make groups of the same size.
    """
    groups = [ranks] if given is None or any(len(group) != len(ranks) for group in given) else given
    rest = sorted(set(range(size)).difference(*groups)) if is_planned else []
    if len(rest) % len(ranks):
        raise NotImplementedError(
            f"planned groups: {len(rest)} of {size} ranks are left beside {groups}, must be a multiple of "
            f"{len(ranks)}, since all ranks run one program"
        )
    groups = groups + [rest[i : i + len(ranks)] for i in range(0, len(rest), len(ranks))]
    return groups if len(groups) > 1 else None


def _register(
    default: ProcessGroup,
    name: str,
    ranks: Sequence[int],
    backend: str,
    config: BackendConfig,
    timeout: datetime.timedelta,
    description: str | None,
    device_id: _device | None,
    tag: str | None = None,
    options: object | None = None,
    partition: list[list[int]] | None = None,
) -> ProcessGroup:
    """Make and register the group of this rank."""
    is_planned = default._is_planned
    pg = _make_group(
        default.get_group_store(),
        list(ranks).index(default.rank()),
        list(ranks),
        name,
        description or "undefined",
        timeout,
        config,
        device_id or default.bound_device_id,
        options=options,
        partition=_partition_of(list(ranks), partition, default.size(), is_planned),
        is_planned=is_planned,
    )
    _add_to_world(pg, Backend(backend), {rank: i for i, rank in enumerate(ranks)}, tag)
    return pg


def _is_own(config: BackendConfig) -> bool:
    """Return whether all engines of a group are those of this package."""
    return not any(name.upper() in Backend._plugins for name in config.get_device_backend_map().values())


def _make_group(
    store: Store,
    rank: int,
    ranks: list[int],
    name: str,
    description: str,
    timeout: datetime.timedelta,
    config: BackendConfig,
    device_id: _device | None,
    options: object | None = None,
    partition: list[list[int]] | None = None,
    is_planned: bool = False,
) -> ProcessGroup:
    """Make a group, by the functions of `Backend.register_backend` if its backends were added."""
    backends = config.get_device_backend_map()
    if _is_own(config):
        return ProcessGroup._make(
            store, rank, ranks, name, description, timeout, backends, device_id, partition, is_planned
        )
    store = PrefixStore(f"group{name}", store)
    made: dict[str, Any] = {}
    pg = None
    for kind, backend in backends.items():
        if backend not in made:
            made[backend] = _make_backend(backend, PrefixStore(backend, store), rank, ranks, name, timeout, options)
        if isinstance(made[backend], ProcessGroup):
            pg = made[backend]
            break
        pg = pg or ProcessGroup(store, rank, len(ranks))
        pg._register_backend(kind, Backend.backend_type_map[backend], made[backend])
    assert pg is not None, "a backend has a device"
    pg._store = store
    pg._engine.set_timeout(timeout)
    if not _is_native(pg._engine):
        pg._engine.store, pg._engine.name = store, name
    pg._set_group_name(name)
    pg._set_group_desc(description)
    if device_id is not None:
        pg.bound_device_id = device_id
    return pg


def _make_backend(
    name: str,
    store: Store,
    rank: int,
    ranks: list[int],
    group_name: str,
    timeout: datetime.timedelta,
    engine_options: object | None,
) -> Any:
    """Return the engine of a group for a backend."""
    plugin = Backend._plugins.get(name.upper())
    if plugin is None:
        return ProcessGroupGloo(store, rank, len(ranks), timeout=timeout)
    if not plugin.extended_api:
        return plugin.creator_fn(store, rank, len(ranks), timeout)
    from ._made_groups import _BackendOptions

    options = _BackendOptions()
    options.store, options.group_rank, options.group_size = store, rank, len(ranks)
    options.timeout, options.group_id, options.global_ranks_in_group = timeout, group_name, ranks
    return plugin.creator_fn(options, engine_options)


def _store_based_barrier(
    rank: int,
    store: Store,
    group_name: str,
    rendezvous_count: int,
    timeout: datetime.timedelta,
    logging_interval: datetime.timedelta = datetime.timedelta(seconds=10),
) -> None:
    """Wait until `rendezvous_count` ranks of a store are here.

    Args:
        rank: this rank, for the error.
        store: the store.
        group_name: a name that the ranks share. A name serves once.
        rendezvous_count: the number of ranks.
        timeout: the limit.
        logging_interval: accepted, and not used.

    Raises:
        DistStoreError: if ranks are missing after `timeout`.
    """
    from .._C import _DistStoreError

    arrived = f"{STORE_BASED_BARRIER_PREFIX}:{group_name}"
    complete = f"{arrived}:complete"
    if store.add(arrived, 1) == rendezvous_count:
        store.set(complete, "1")
    try:
        store.wait([complete], timeout)
    except _DistStoreError as error:
        raise _DistStoreError(
            f"Timed out initializing process group in store based barrier on rank {rank}, for key: {arrived} "
            f"(world_size={rendezvous_count}, num_workers_joined={store.add(arrived, 0)}, timeout={timeout} "
            f"error={error})"
        ) from error


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: list[list[int]] | None = None,
    timeout: datetime.timedelta | None = None,
    pg_options: object | None = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | int:
    """Split a group. All its ranks call it with the same lists.

    Args:
        parent_pg: the group to split. The default is the group of all ranks.
        split_ranks: lists of ranks of the parent, which do not overlap.
        timeout: the limit of each collective. The default is 30 minutes.
        pg_options: accepted, and not used.
        group_desc: a description, for `ProcessGroup.group_desc`.
        backend: as for `init_process_group`. The default is that of the parent.

    Returns:
        The group of the list that has this rank, or `GroupMember.NON_GROUP_MEMBER`.
    """
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    default = _get_default_group()
    parent = parent_pg or default
    if parent not in _world.pg_map:
        raise ValueError(f"Group {parent} is not registered")
    for ranks in split_ranks:
        if len(ranks) == 0:
            raise ValueError("the split group cannot be empty")
        if len(ranks) > default.size():
            text = "the split group's size should be less or equal to the world_size set by init_process_group"
            raise ValueError(text)
        if len(ranks) != len(set(ranks)):
            raise ValueError("the split group cannot have duplicate ranks")
        for rank in ranks:
            if not 0 <= rank < parent.size():
                raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {parent.size() - 1}")
    timeout = default_pg_timeout if timeout is None else timeout
    _check_valid_timeout(timeout)
    parent._engine.agree(str(split_ranks))
    mine = next((ranks for ranks in split_ranks if parent.rank() in ranks), None)
    globals_of = get_process_group_ranks(parent)
    name = _process_group_name([globals_of[rank] for rank in mine or split_ranks[0]], True)
    if mine is None:
        return GroupMember.NON_GROUP_MEMBER
    given = backend or _world.pg_map[parent][0]
    config = BackendConfig(Backend(given))
    description = group_desc or f"{parent.group_desc}:split"
    lists = [[globals_of[rank] for rank in ranks] for ranks in split_ranks]
    return _register(
        default,
        name,
        [globals_of[rank] for rank in mine],
        given,
        config,
        timeout,
        description,
        parent.bound_device_id,
        partition=lists,
    )


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: object | None = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | int | None, list[ProcessGroup | int]]:
    """Divide a group into groups of `group_size` ranks. All ranks call it.

    Args:
        group_size: ranks of each group. The default is the number of accelerators of a host.
        group: the group to divide. The default is the group of all ranks.
        timeout: the limit of each collective. The default is 30 minutes.
        backend: as for `init_process_group`.
        pg_options: accepted, and not used.
        group_desc: a description, for `ProcessGroup.group_desc`.

    Returns:
        The group of this rank, and the list of all groups.
    """
    if group_size is None:
        if not accelerator.is_available():
            raise ValueError(
                "Default group size only takes effect when CUDA/XPU is available."
                "If your subgroup using a backend that does not depend on CUDA/XPU,"
                "please pass in 'group_size' correctly."
            )
        group_size = accelerator.device_count()
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    world_size = get_world_size(group)
    if world_size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({world_size})")
    if world_size % group_size:
        raise ValueError(f"The world size ({world_size}) must be divisible by 'group_size={group_size!r}'")
    ranks = get_process_group_ranks(group)
    lists = [ranks[i : i + group_size] for i in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]],
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: object | None = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | int | None, list[ProcessGroup | int]]:
    """Make a group of each list of global ranks. The lists do not overlap, and all ranks call it with the same lists.

    Returns:
        The group of this rank, or `None`, and the list of all groups.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: dict[int, list[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}")
            seen[rank] = ranks
    groups = [
        _new_group_with_tag(
            ranks, timeout, backend, pg_options, group_desc=group_desc, partition=ranks_per_subgroup_list
        )
        for ranks in ranks_per_subgroup_list
    ]
    mine = next((i for i, ranks in enumerate(ranks_per_subgroup_list) if get_rank() in ranks), None)
    return None if mine is None else groups[mine], groups


def shrink_group(
    ranks_to_exclude: list[int],
    group: ProcessGroup | None = None,
    shrink_flags: int = 0,
    pg_options: object | None = None,
) -> ProcessGroup:
    """Raise `NotImplementedError`: a group of the ranks that are left is made by `new_group`."""
    raise NotImplementedError("torch.distributed.shrink_group: not implemented. Make a group with new_group.")
