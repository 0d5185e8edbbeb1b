"""`torch.distributed.checkpoint.utils`: steps that all ranks do together, and values by their names."""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytpu.distributed as dist

from ._pieces import memory_of
from .api import CheckpointException, is_wrapped, wrapped
from .metadata import STATE_DICT_TYPE, MetadataIndex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor

__all__ = ["find_state_dict_object", "find_tensor_shard"]

T = TypeVar("T")
R = TypeVar("R")


class Team:
    """Ranks that do steps together. If one of them fails in a step, all of them raise `CheckpointException`.

    Args:
        group: The process group. `None` is the default group.
        is_alone: Whether this process does the steps alone.
        coordinator: Rank in the group of the process that combines results.
    """

    def __init__(self, group: Any, is_alone: bool, coordinator: int = 0) -> None:
        self._group, self._is_alone = group, is_alone
        self._source = coordinator if group is None or is_alone else dist.get_global_rank(group, coordinator)
        self.rank: int = 0 if is_alone else dist.get_rank(group)
        self.size: int = 1 if is_alone else dist.get_world_size(group)
        self.is_coordinator = is_alone or self.rank == coordinator

    def each(self, step: str, run: Callable[[], T]) -> list[T]:
        """Call `run` on all ranks, and return the results of all of them."""
        results: list[Any] = [_outcome(run)] * self.size
        if not self._is_alone:
            dist.all_gather_object(results, results[0], group=self._group)
        return _without_failure(step, results)

    def shared(self, step: str, run: Callable[[], T], combine: Callable[[list[T]], R]) -> R:
        """Call `run` on all ranks and `combine` on the coordinator. Return its result on all ranks."""
        reply = [self._combined(step, run, combine)]
        if not self._is_alone:
            dist.broadcast_object_list(reply, src=self._source, group=self._group)
        return _without_failure(step, reply)[0]

    def assigned(self, step: str, run: Callable[[], T], combine: Callable[[list[T]], list[R]]) -> R:
        """Call `run` on all ranks and `combine` on the coordinator. Each rank returns its item of the result."""
        combined = self._combined(step, run, combine)
        replies = [combined] * self.size if isinstance(combined, CheckpointException) else combined
        if self._is_alone:
            return _without_failure(step, replies)[0]
        reply: list[Any] = [None]
        dist.scatter_object_list(reply, replies, src=self._source, group=self._group)
        return _without_failure(step, reply)[0]

    def _combined(self, step: str, run: Callable[[], T], combine: Callable[[list[T]], Any]) -> Any:
        """Return the combined results on the coordinator, or the failure as a value. Return `None` elsewhere."""
        results: list[Any] = [_outcome(run)] * self.size
        if not self._is_alone:
            received = results if self.is_coordinator else None
            dist.gather_object(results[0], received, dst=self._source, group=self._group)
        if not self.is_coordinator:
            return None
        try:
            given = _without_failure(step, results)
        except CheckpointException as failure:
            return failure
        combined = _outcome(lambda: combine(given))
        return CheckpointException(step, {self.rank: combined}) if is_wrapped(combined) else combined


class _DistWrapper:
    """Objects and results of functions, exchanged by the ranks of a group, or by this process alone.

    If a function fails on a rank, all ranks raise `CheckpointException`.

    Args:
        group: The process group. `None` is the default group.
        use_dist: Whether there are other ranks.
        coordinator_rank: Rank in the group that sends and combines.
    """

    def __init__(self, group: Any, use_dist: bool, coordinator_rank: int) -> None:
        self.group, self.use_dist, self.coordinator_rank = group, use_dist, coordinator_rank
        self._team = Team(group, not use_dist, coordinator_rank)
        self.rank, self.is_coordinator = self._team.rank, self._team.is_coordinator
        self.global_coordinator_rank = self._team._source

    def get_rank(self) -> int:
        """Return this rank in the group."""
        return self.rank

    def get_world_size(self) -> int:
        """Return the number of ranks of the group."""
        return self._team.size

    def broadcast_object(self, object: Any) -> Any:
        """Return the object of the coordinator on all ranks."""
        shared = [object]
        if self.use_dist:
            dist.broadcast_object_list(shared, src=self.global_coordinator_rank, group=self.group)
        return shared[0]

    def gather_object(self, object: Any) -> list[Any] | None:
        """Return the objects of all ranks on the coordinator, and `None` on the others."""
        if not self.use_dist:
            return [object]
        gathered = [None] * self._team.size if self.is_coordinator else None
        dist.gather_object(object, gathered, dst=self.global_coordinator_rank, group=self.group)
        return gathered

    def all_gather_object(self, object: Any) -> list[Any]:
        """Return the objects of all ranks on all ranks."""
        gathered = [object] * self._team.size
        if self.use_dist:
            dist.all_gather_object(gathered, object, group=self.group)
        return gathered

    def scatter_object(self, object_list: list[Any] | None) -> Any:
        """Return this rank's object of the coordinator's list."""
        if not self.use_dist:
            return (object_list or [None])[0]
        received: list[Any] = [None]
        source = self.global_coordinator_rank
        dist.scatter_object_list(received, object_list if self.is_coordinator else None, source, self.group)
        return received[0]

    def all_gather(self, step: str, map_fun: Callable[[], T]) -> list[T]:
        """Return what `map_fun` returns on each rank, on all ranks."""
        return self._team.each(step, map_fun)

    def all_reduce(self, step: str, map_fun: Callable[[], T], reduce_fun: Callable[[list[T]], R]) -> R:
        """Call `map_fun` on all ranks and `reduce_fun` on the coordinator. Return its result on all ranks."""
        return self._team.shared(step, map_fun, reduce_fun)

    def reduce_scatter(self, step: str, map_fun: Callable[[], T], reduce_fun: Callable[[list[T]], list[R]]) -> R:
        """Call `map_fun` on all ranks and `reduce_fun` on the coordinator. Each rank returns its item."""
        return self._team.assigned(step, map_fun, reduce_fun)

    def broadcast(self, step: str, map_fun: Callable[[], T]) -> T:
        """Call `map_fun` on the coordinator, and return its result on all ranks."""
        return self._team.shared(step, lambda: None, lambda _: map_fun())

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        if self.use_dist:
            dist.barrier(group=self.group)


def _create_file_view(file: Any, offset: int, length: int) -> Any:
    """Return a part of an open file as a file to read."""
    from .filesystem import _Part

    return _Part(file, offset, length)


def _outcome(run: Callable[[], Any]) -> Any:
    """Return the result of a call, or its error in a form that can be sent."""
    try:
        return run()
    except BaseException as error:
        return wrapped(error)


def _without_failure(step: str, results: list[Any]) -> list[Any]:
    """Return results by rank. Raise `CheckpointException` if one of them is an error."""
    for result in results:
        if isinstance(result, CheckpointException):
            raise result
    failures = {rank: result for rank, result in enumerate(results) if is_wrapped(result)}
    if failures:
        raise CheckpointException(step, failures)
    return results


def find_tensor_shard(tensor: Any, index: MetadataIndex) -> Tensor:
    """Return the memory of a chunk of a tensor.

    Args:
        tensor: A tensor, or an object with the methods of `_Checkpointable`.
        index: Name of the chunk.

    Raises:
        ValueError: If this rank does not have the chunk.
    """
    return memory_of(tensor, index)


def find_state_dict_object(state_dict: STATE_DICT_TYPE, index: MetadataIndex) -> Any:
    """Return the object for a name in a flat state dict, or the memory of the chunk if it is a tensor.

    Raises:
        ValueError: If there is no such object.
    """
    if index.fqn in state_dict:
        return memory_of(state_dict[index.fqn], index)
    raise ValueError(f"Could not find FQN: '{index.fqn}'")


def accepted(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """Return the options that a function takes. Planners and storages of older programs do not take all."""
    parameters = inspect.signature(function).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return {name: value for name, value in options.items() if takes_all or name in parameters}


def storage_for(given: Any, checkpoint_id: str | os.PathLike[str] | None, kinds: Sequence[Any]) -> Any:
    """Return the storage of a checkpoint.

    Args:
        given: The storage that the caller has given, or `None`.
        checkpoint_id: The name of the checkpoint, or `None` if `given` knows it.
        kinds: Classes of which the first one that knows `checkpoint_id` is made if no storage is given.

    Raises:
        RuntimeError: If no class knows `checkpoint_id`.
    """
    if given and checkpoint_id is not None:
        given.reset(checkpoint_id)
    if given:
        return given
    if not checkpoint_id:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
    for kind in kinds:
        if kind.validate_checkpoint_id(checkpoint_id):
            return kind(checkpoint_id)
    raise RuntimeError(
        "Cannot detect which StorageReader or StorageWriter to use. Please specify the storage_reader/storage_writer."
    )


def takes_storage_second(storage: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return a decorator for functions that took the argument `storage` second. They still do, with a warning."""

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> T:
            if len(args) != 2:
                return function(*args, **kwargs)
            warnings.warn(
                f"The argument order of {function.__name__} has been changed. Please check the document to avoid "
                "future breakages.",
                stacklevel=2,
            )
            return function(args[0], **{storage: args[1]}, **kwargs)

        return call

    return decorate
