"""`torch.distributed.checkpoint.state_dict_loader`: `load`."""

from __future__ import annotations

import os
import warnings
from typing import Any

from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .fsspec_filesystem import FsspecReader
from .metadata import Metadata
from .planner import LoadPlan, LoadPlanner
from .state_dict_saver import _is_alone
from .stateful import Stateful
from .storage import StorageReader
from .utils import Team, accepted, storage_for, takes_storage_second

__all__ = ["load", "load_state_dict"]


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """Read a checkpoint. Deprecated: use `load`."""
    warnings.warn(
        "`load_state_dict` is deprecated and will be removed in future versions. Please use `load` instead.",
        FutureWarning,
        stacklevel=2,
    )
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


@takes_storage_second("storage_reader")
def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill a state dict from a checkpoint, in place. All ranks of the group call this function.

    Each rank reads the chunks that it needs, however many ranks have written the checkpoint. Tensors are filled in
    their memory. Other values are replaced.

    Args:
        state_dict: The values to fill. Objects with `state_dict` and `load_state_dict` get their state.
        checkpoint_id: Folder or URL of the checkpoint.
        storage_reader: The reader. By default a `FileSystemReader` for `checkpoint_id`.
        planner: The planner. By default a `DefaultLoadPlanner`.
        process_group: The group. `None` is the default group.
        no_dist: Whether this process loads alone.

    Raises:
        CheckpointException: On all ranks, if one rank fails.

    Example:
        >>> import pytpu as torch
        >>> import tempfile
        >>> import pytpu.distributed.checkpoint as dcp
        >>> folder = tempfile.mkdtemp()
        >>> _ = dcp.save({"w": torch.arange(3), "step": 7}, checkpoint_id=folder, no_dist=True)
        >>> state = {"w": torch.zeros(3, dtype=torch.int64), "step": 0}
        >>> dcp.load(state, checkpoint_id=folder, no_dist=True)
        >>> state
        {'w': tensor([0, 1, 2]), 'step': 7}
    """
    no_dist = _is_alone(no_dist, "load")
    reader = storage_for(storage_reader, checkpoint_id, (FileSystemReader, FsspecReader))
    # All ranks call `state_dict` in one order: it may communicate.
    objects = {key: state_dict[key] for key in sorted(state_dict)}
    values = {key: obj.state_dict() if isinstance(obj, Stateful) else obj for key, obj in objects.items()}
    _load_state_dict(values, reader, process_group, no_dist=no_dist, planner=planner)
    for key, loaded in values.items():
        obj = objects.get(key)
        if isinstance(obj, Stateful):
            obj.load_state_dict(loaded)
        elif key in objects:
            state_dict[key] = loaded


def _read_metadata(reader: StorageReader, rank: int) -> tuple[Metadata, bool]:
    """Return the content of a checkpoint, and whether it is that of all ranks."""
    try:
        return reader.read_metadata(), True
    except Exception as error:
        text = f"metadata is None; global metadata read failed: {error}"
    # Without collectives, each rank has saved metadata of its own.
    if accepted(reader.read_metadata, rank=rank):
        try:
            return reader.read_metadata(rank=rank), False
        except Exception as error:
            text += f"; rank local metadata read failed: {error}"
    raise AssertionError(text)


def _load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    team = Team(process_group, no_dist, coordinator_rank)
    chosen = planner or DefaultLoadPlanner()

    def plan_of_rank() -> LoadPlan:
        metadata, is_of_all = _read_metadata(storage_reader, team.rank)
        chosen.set_up_planner(state_dict, metadata, team.is_coordinator)
        options = accepted(storage_reader.set_up_storage_reader, rank=team.rank, use_collectives=is_of_all)
        storage_reader.set_up_storage_reader(metadata, team.is_coordinator, **options)
        return storage_reader.prepare_local_plan(chosen.create_local_plan())

    def plans_of_all(plans: list[LoadPlan]) -> list[LoadPlan]:
        return storage_reader.prepare_global_plan(chosen.create_global_plan(plans))

    def read(plan: LoadPlan) -> None:
        storage_reader.read_data(chosen.finish_plan(plan), chosen).wait()

    plan = team.assigned("plan", plan_of_rank, plans_of_all)
    team.each("read", lambda: read(plan))


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    process_group: Any = None,
) -> dict[str, Any]:
    """Return values of a checkpoint, on `cpu`.

    Args:
        keys: Names of values, flat or of the dicts that hold them. `None` is all.
        checkpoint_id: Folder or URL of the checkpoint.
        storage_reader: The reader. By default a `FileSystemReader` for `checkpoint_id`.
        process_group: The group. `None` is the default group.
    """
    no_dist = _is_alone(False, "load")
    state_dict: dict[str, Any] = {}
    reader = storage_for(storage_reader, checkpoint_id, (FileSystemReader, FsspecReader))
    chosen = _EmptyStateDictLoadPlanner({keys} if isinstance(keys, str) else keys)
    _load_state_dict(state_dict, reader, process_group, no_dist=no_dist, planner=chosen)
    return state_dict
