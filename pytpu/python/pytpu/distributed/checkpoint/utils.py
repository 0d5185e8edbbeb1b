"""``torch.distributed.checkpoint.utils``: steps that all ranks do together, and views of files."""

from __future__ import annotations

import functools
import inspect
import io
import itertools
import os
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytpu as torch
import pytpu.distributed as dist

from ._chunks import has_chunks, shard
from .api import WRAPPED_EXCEPTION, CheckpointException, _is_wrapped_exception, _wrap_exception
from .metadata import STATE_DICT_TYPE, MetadataIndex
from .protocol import _get_checkpointable_tensor_shard, _is_checkpointable_tensor

if TYPE_CHECKING:
    from pytpu import Tensor

__all__ = ["find_state_dict_object", "find_tensor_shard"]

T = TypeVar("T")
R = TypeVar("R")


def _get_failure_dict(results: list[Any]) -> dict[int, WRAPPED_EXCEPTION]:
    """Return the errors among the results of all ranks."""
    return {rank: result for rank, result in enumerate(results) if _is_wrapped_exception(result)}


def _all_gather_keys(local_dict: dict[str, Any], group: Any = None) -> set[str]:
    """Return the keys that a dict has on any rank."""
    gathered: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(gathered, list(local_dict), group=group)
    return set(itertools.chain.from_iterable(gathered))


def _assert_same_keys(state_dict: dict[str, Any], process_group: Any = None) -> None:
    """Raise `AssertionError` if another rank has a key that this rank does not have."""
    if dist.get_world_size(process_group) == 1:
        return
    missing = _all_gather_keys(state_dict, process_group) - state_dict.keys()
    if missing:
        raise AssertionError(f"Key(s) present in other ranks but not this one, difference: {missing}")


def _result_of(step: Callable[[], T]) -> T | WRAPPED_EXCEPTION:
    """Return the result of a step, or its error in a form that can be sent."""
    try:
        return step()
    except BaseException as error:
        return _wrap_exception(error)


class _DistWrapper:
    """Steps of all ranks of a group. If a step fails on one rank, each rank raises `CheckpointException`.

    Args:
        group: The process group. `None` is the default group.
        use_dist: If `False`, this process is alone.
        coordinator_rank: Rank in the group of the process that combines results.
    """

    def __init__(self, group: Any, use_dist: bool, coordinator_rank: int) -> None:
        self.group = group
        self.use_dist = use_dist
        self.coordinator_rank = coordinator_rank
        self.global_coordinator_rank = coordinator_rank if use_dist else 0
        if use_dist and group is not None:
            self.global_coordinator_rank = dist.get_global_rank(group, coordinator_rank)
        self.rank: int = dist.get_rank(group) if use_dist else 0
        self.is_coordinator = not use_dist or self.rank == coordinator_rank

    def get_rank(self) -> int:
        """Return the rank of this process in the group."""
        return self.rank

    def get_world_size(self) -> int:
        """Return the number of ranks."""
        return dist.get_world_size(self.group) if self.use_dist else 1

    def broadcast_object(self, object: Any) -> Any:
        """Return the coordinator's object on all ranks."""
        objects = [object]
        if self.use_dist:
            dist.broadcast_object_list(object_list=objects, group=self.group, src=self.global_coordinator_rank)
        return objects[0]

    def gather_object(self, object: T) -> list[T] | None:
        """Return the objects of all ranks on the coordinator, and `None` elsewhere."""
        if not self.use_dist:
            return [object]
        gathered: list[Any] | None = [None] * self.get_world_size() if self.is_coordinator else None
        dist.gather_object(obj=object, object_gather_list=gathered, dst=self.global_coordinator_rank, group=self.group)
        return gathered

    def all_gather_object(self, object: T) -> list[T]:
        """Return the objects of all ranks."""
        if not self.use_dist:
            return [object]
        gathered: list[Any] = [None] * self.get_world_size()
        dist.all_gather_object(object_list=gathered, obj=object, group=self.group)
        return gathered

    def scatter_object(self, object_list: list[T] | None) -> T:
        """Return the object that the coordinator has for this rank."""
        if not self.use_dist:
            if object_list is None:
                raise AssertionError("object_list is None")
            return object_list[0]
        received: list[Any] = [None]
        dist.scatter_object_list(
            scatter_object_output_list=received,
            scatter_object_input_list=object_list if self.is_coordinator else None,
            src=self.global_coordinator_rank,
            group=self.group,
        )
        return received[0]

    def _reduced(self, step: str, gathered: list[Any] | None, reduce_fun: Callable[[list[Any]], Any]) -> Any:
        """Return on the coordinator what `reduce_fun` makes of the results, or the error of the step."""
        if not self.is_coordinator:
            return None
        if gathered is None:
            raise AssertionError("all_data is None")
        failures = _get_failure_dict(gathered)
        if not failures:
            result = _result_of(lambda: reduce_fun(gathered))
            if not _is_wrapped_exception(result):
                return result
            failures[self.rank] = result
        return CheckpointException(step, failures)

    def reduce_scatter(self, step: str, map_fun: Callable[[], T], reduce_fun: Callable[[list[T]], list[R]]) -> R:
        """Run `map_fun` on all ranks and `reduce_fun` on the coordinator. Return this rank's item of its result.

        Raises:
            CheckpointException: On all ranks, if one of these functions raises an error.
        """
        reduced = self._reduced(step, self.gather_object(_result_of(map_fun)), reduce_fun)
        if isinstance(reduced, CheckpointException):
            reduced = [reduced] * self.get_world_size()
        return self._checked(self.scatter_object(reduced))

    def all_reduce(self, step: str, map_fun: Callable[[], T], reduce_fun: Callable[[list[T]], R]) -> R:
        """Run `map_fun` on all ranks and `reduce_fun` on the coordinator. Return its result on all ranks.

        Raises:
            CheckpointException: On all ranks, if one of these functions raises an error.
        """
        reduced = self._reduced(step, self.gather_object(_result_of(map_fun)), reduce_fun)
        return self._checked(self.broadcast_object(reduced))

    def all_gather(self, step: str, map_fun: Callable[[], T]) -> list[T]:
        """Run `map_fun` on all ranks. Return its results.

        Raises:
            CheckpointException: On all ranks, if it raises an error on one of them.
        """
        results: list[Any] = self.all_gather_object(_result_of(map_fun))
        failures = _get_failure_dict(results)
        if failures:
            raise CheckpointException(step, failures)
        return results

    def broadcast(self, step: str, map_fun: Callable[[], T]) -> T:
        """Run `map_fun` on the coordinator. Return its result on all ranks.

        Raises:
            CheckpointException: On all ranks, if it raises an error.
        """
        result: Any = None
        if self.is_coordinator:
            result = _result_of(map_fun)
            if _is_wrapped_exception(result):
                result = CheckpointException(step, {self.rank: result})
        return self._checked(self.broadcast_object(result))

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.use_dist:
            dist.barrier(group=self.group)

    @staticmethod
    def _checked(result: Any) -> Any:
        if isinstance(result, CheckpointException):
            raise result
        return result


def find_tensor_shard(tensor: Any, index: MetadataIndex) -> Tensor:
    """Return the memory of a chunk of a tensor.

    Args:
        tensor: A tensor, or an object with the methods of `_Checkpointable`.
        index: Name of the chunk.

    Raises:
        ValueError: If this rank does not have the chunk.
    """
    if has_chunks(tensor):
        return shard(tensor, index)
    if _is_checkpointable_tensor(tensor):
        return _get_checkpointable_tensor_shard(tensor, index)
    if index.offset is not None and any(index.offset):
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return tensor


def find_state_dict_object(state_dict: STATE_DICT_TYPE, index: MetadataIndex) -> Any:
    """Return the object for a name in a flat state dict, or the memory of the chunk if it is a tensor.

    Raises:
        ValueError: If there is no such object.
    """
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    obj = state_dict[index.fqn]
    if isinstance(obj, torch.Tensor) or has_chunks(obj):
        return find_tensor_shard(obj, index)
    if index.offset is not None:
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return obj


def _element_wise_add(a: Sequence[int], b: Sequence[int]) -> list[int]:
    return [x + y for x, y in zip(a, b, strict=False)]


def _element_wise_sub(a: Sequence[int], b: Sequence[int]) -> list[int]:
    return [x - y for x, y in zip(a, b, strict=False)]


class _ReaderView(io.RawIOBase):
    """A part of a file, as a file that can be read.

    Args:
        base_stream: The file.
        offset: Position of the first byte.
        len: Number of bytes.
    """

    def __init__(self, base_stream: Any, offset: int, len: int) -> None:
        super().__init__()
        self.base_stream = base_stream
        self.offset = offset
        self.len = len
        self.seek(0)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position, and return it."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell() if whence == os.SEEK_CUR else 0, os.SEEK_END: self.len}
        position = start[whence] + offset
        if position < 0:
            raise ValueError(f"negative seek position {position}")
        self.base_stream.seek(self.offset + position)
        return position

    def tell(self) -> int:
        """Return the position."""
        return self.base_stream.tell() - self.offset

    def readable(self) -> bool:
        """Return `True`."""
        return True

    def seekable(self) -> bool:
        """Return `True`."""
        return True

    def readinto(self, b: Any) -> int:
        """Read into a buffer, and return the number of bytes."""
        view = memoryview(b).cast("B")
        left = max(0, self.len - self.tell())
        return self.base_stream.readinto(view[:left]) if left else 0

    def read(self, size: int = -1) -> bytes:
        """Return bytes up to the end of the part, at most `size` of them."""
        left = max(0, self.len - self.tell())
        return self.base_stream.read(left if size is None or size < 0 else min(size, left))


def _create_file_view(file: Any, offset: int, length: int) -> io.RawIOBase:
    return _ReaderView(file, offset, length)


def _normalize_device_info(device_type: str, device_id: int) -> str:
    return device_type if device_type == "cpu" else f"{device_type}:{device_id}"


ENABLE_PROFILE = False


@contextmanager
def _profile() -> Generator[None, None, None]:
    """Print a profile of the block on rank 0, if `ENABLE_PROFILE` is set."""
    if not ENABLE_PROFILE or (dist.is_available() and dist.is_initialized() and dist.get_rank() != 0):
        yield
        return
    import cProfile
    import pstats

    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        pstats.Stats(profile).sort_stats("time").print_stats(10)


def _api_bc_check(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that still takes the writer or reader as its second argument, with a warning."""

    @functools.wraps(func)
    def called(*args: Any, **kwargs: Any) -> Any:
        if len(args) != 2:
            return func(*args, **kwargs)
        warnings.warn(
            f"The argument order of {func.__name__} has been changed. Please check the document to avoid future "
            "breakages.",
            stacklevel=2,
        )
        parameters = inspect.signature(func).parameters
        name = "storage_writer" if "storage_writer" in parameters else "storage_reader"
        if name in kwargs:
            raise AssertionError(f"{name} in kwargs: {(args, kwargs)}")
        return func(args[0], **{name: args[1]}, **kwargs)

    return called
