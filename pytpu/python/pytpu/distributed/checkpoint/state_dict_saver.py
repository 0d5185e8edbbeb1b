"""`torch.distributed.checkpoint.state_dict_saver`: `save` and `async_save`."""

from __future__ import annotations

import enum
import os
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytpu as torch
import pytpu.distributed as dist

from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .fsspec_filesystem import FsspecWriter
from .metadata import STATE_DICT_TYPE, Metadata, StorageMeta
from .planner import SavePlan, SavePlanner
from .staging import AsyncStager, DefaultStager, StagingOptions
from .stateful import Stateful
from .storage import StorageWriter, WriteResult
from .utils import Team, accepted, storage_for, takes_storage_second

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(enum.Enum):
    """Where `async_save` writes: in a thread. Another process is not implemented."""

    THREAD = "thread"
    PROCESS = "process"


def save_state_dict(
    state_dict: STATE_DICT_TYPE,
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """Write a checkpoint. Deprecated: use `save`."""
    warnings.warn(
        "`save_state_dict` is deprecated and will be removed in future versions.Please use `save` instead.",
        FutureWarning,
        stacklevel=2,
    )
    storage_writer.reset()
    return _save_state_dict(
        state_dict, storage_writer, process_group, coordinator_rank=coordinator_rank, no_dist=no_dist, planner=planner
    )


def _is_alone(no_dist: bool, verb: str) -> bool:
    """Return whether this process saves or loads alone. Warn if it does."""
    if no_dist or not dist.is_available() or not dist.is_initialized():
        warnings.warn(
            "torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to "
            f"{verb} in a single process.",
            stacklevel=4,
        )
        return True
    return False


@takes_storage_second("storage_writer")
def save(
    state_dict: STATE_DICT_TYPE,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write a checkpoint. All ranks of the group call this function.

    Each rank writes its chunks of sharded tensors. One rank writes what all ranks have.

    Args:
        state_dict: The values: tensors, containers of them, objects that `torch.save` writes, and objects with
            `state_dict`.
        checkpoint_id: Folder or URL of the checkpoint.
        storage_writer: The writer. By default a `FileSystemWriter` for `checkpoint_id`.
        planner: The planner. By default a `DefaultSavePlanner`.
        process_group: The group. `None` is the default group.
        no_dist: Whether this process saves alone.
        use_collectives: If `False`, each rank writes a checkpoint of its own, without communication before the end.

    Returns:
        The content of the checkpoint.

    Raises:
        CheckpointException: On all ranks, if one rank fails.

    Example:
        >>> import pytpu as torch
        >>> import os, tempfile
        >>> import pytpu.distributed.checkpoint as dcp
        >>> folder = tempfile.mkdtemp()
        >>> model = torch.nn.Linear(2, 1)
        >>> _ = dcp.save({"model": model.state_dict(), "step": 7}, checkpoint_id=folder, no_dist=True)
        >>> sorted(os.listdir(folder))
        ['.metadata', '__0_0.distcp']
    """
    no_dist = _is_alone(no_dist, "save")
    return _save_state_dict(
        _values_of(state_dict),
        storage_for(storage_writer, checkpoint_id, (FileSystemWriter, FsspecWriter)),
        process_group,
        no_dist=no_dist,
        planner=planner,
        use_collectives=use_collectives,
    )


@dataclass
class AsyncSaveResponse:
    """The futures of `async_save` with a stager that copies in a thread.

    Args:
        staging_completion: Complete when the state dict has been copied and may change.
        upload_completion: Complete when the checkpoint has been written.
    """

    staging_completion: Future[None]
    upload_completion: Future[None]


def async_save(
    state_dict: STATE_DICT_TYPE,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Any] | AsyncSaveResponse:
    """Copy a state dict, and write the checkpoint in a thread. All ranks of the group call this function.

    The thread calls collectives. Give it a process group of its own (`dist.new_group()`), so that they do not mix
    with those of the training loop. Wait for the future before the next save, and before the process ends.

    Args:
        state_dict: The values, as for `save`.
        checkpoint_id: Folder or URL of the checkpoint.
        storage_writer: The writer. By default a `FileSystemWriter` for `checkpoint_id`.
        planner: The planner. By default a `DefaultSavePlanner`.
        process_group: The group. `None` is the default group. It needs a backend for `cpu`.
        async_checkpointer_type: Where the checkpoint is written. Only `THREAD` is implemented.
        async_stager: The class that copies the state dict. By default the writer, if it can, or a `DefaultStager`.
        no_dist: Whether this process saves alone.
        use_collectives: If `False`, each rank writes a checkpoint of its own.

    Returns:
        A future of the content of the checkpoint. With a stager that copies in a thread, an `AsyncSaveResponse`.

    Raises:
        NotImplementedError: If `async_checkpointer_type` is `PROCESS`.
    """
    if async_checkpointer_type == AsyncCheckpointerType.PROCESS:
        raise NotImplementedError(
            "torch.distributed.checkpoint.async_save: AsyncCheckpointerType.PROCESS is not implemented. Use "
            "AsyncCheckpointerType.THREAD."
        )
    if not no_dist and dist.is_available() and dist.is_initialized():
        group = process_group or dist.distributed_c10d._get_default_group()
        if torch.device("cpu") not in group._device_types:
            raise AssertionError(
                "A CPU backend must be enabled for async save; try initializing process group with 'cpu:gloo,cuda:nccl'"
            )
    owned: DefaultStager | None = None
    if async_stager is None:
        if isinstance(storage_writer, AsyncStager):
            async_stager = storage_writer
        else:
            async_stager = owned = DefaultStager(StagingOptions(False, False, False, False))
    staged = async_stager.stage(_values_of(state_dict))
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="AsyncCheckpointExecutor")

    def write() -> Metadata:
        return save(
            staged.result() if isinstance(staged, Future) else staged,
            checkpoint_id=checkpoint_id,
            storage_writer=storage_writer,
            planner=planner,
            process_group=process_group,
            no_dist=no_dist,
            use_collectives=use_collectives,
        )

    written: Future[Any] = executor.submit(write)
    # The thread ends after this task.
    executor.shutdown(wait=False)
    if owned is not None:
        written.add_done_callback(lambda _: owned.close())
    if not isinstance(staged, Future):
        if async_stager.should_synchronize_after_execute:
            async_stager.synchronize_staging()
        return written
    copied: Future[None] = Future()

    def tell(source: Future[Any]) -> None:
        error = source.exception()
        copied.set_result(None) if error is None else copied.set_exception(error)

    staged.add_done_callback(tell)
    return AsyncSaveResponse(staging_completion=copied, upload_completion=written)


def _values_of(state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
    """Return the values, with the state of objects that have one."""
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def _save_state_dict(
    state_dict: STATE_DICT_TYPE,
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
    use_collectives: bool = True,
) -> Metadata:
    team = Team(process_group, no_dist, coordinator_rank)
    chosen = planner or DefaultSavePlanner()
    contents: list[Metadata] = []

    def plan_of_rank() -> SavePlan:
        _set_up_planner(chosen, state_dict, storage_writer.storage_meta(), team.is_coordinator)
        options = accepted(storage_writer.set_up_storage_writer, rank=team.rank, use_collectives=use_collectives)
        storage_writer.set_up_storage_writer(team.is_coordinator, **options)
        return storage_writer.prepare_local_plan(chosen.create_local_plan())

    def plans_of_all(plans: list[SavePlan]) -> list[SavePlan]:
        finals, content = chosen.create_global_plan(plans)
        contents.append(content)
        return storage_writer.prepare_global_plan(finals)

    def write(plan: SavePlan) -> list[WriteResult]:
        written = storage_writer.write_data(chosen.finish_plan(plan), chosen)
        written.wait()
        return written.value()

    def finish(results: list[list[WriteResult]]) -> Metadata:
        storage_writer.finish(contents[0], results)
        return contents[0]

    if use_collectives:
        plan = team.assigned("plan", plan_of_rank, plans_of_all)
        return team.shared("write", lambda: write(plan), finish)

    def save_alone() -> None:
        (plan,) = plans_of_all([plan_of_rank()])
        finish([write(plan)])

    # Errors of one rank reach the others at the end, where all of them meet.
    team.each("write", save_alone)
    return contents[0]


def _set_up_planner(
    planner: SavePlanner, state_dict: STATE_DICT_TYPE, storage_meta: StorageMeta | None, is_coordinator: bool
) -> None:
    """Call `set_up_planner`, also of a class for older versions of PyTorch."""
    if accepted(planner.set_up_planner, storage_meta=storage_meta):
        planner.set_up_planner(state_dict, storage_meta=storage_meta, is_coordinator=is_coordinator)
        return
    warnings.warn(
        "The function definition for SavePlanner.set_up_planner has been updated to include the storage_meta "
        "argument. Please update your implementation to include this parameter.",
        stacklevel=2,
    )
    planner.set_up_planner(state_dict, is_coordinator=is_coordinator)
