"""Functions that run on one rank or on all, and share their results or errors with all ranks."""

from __future__ import annotations

from typing import Any, TypeVar

from . import distributed_c10d as dist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .distributed_c10d import ProcessGroup

__all__: list[str] = []

T = TypeVar("T")


def broadcast(
    data_or_fn: T | Callable[[], T],
    *,
    success: bool = True,
    stage_name: str | None = None,
    rank: int = 0,
    pg: ProcessGroup | None = None,
) -> T:
    """Return the value of one rank on all ranks.

    Args:
        data_or_fn: the value, or a function without arguments that returns it. Only `rank` calls it.
        success: whether `rank` has the value. Otherwise all ranks raise an error.
        stage_name: a name for errors.
        rank: the rank in `pg`.
        pg: the ranks. Without a group, this process does everything.

    Raises:
        RuntimeError: on all ranks, if the function fails or `success` is false. It has the error as its cause.

    Example:
        >>> from pytpu.distributed.collective_utils import broadcast
        >>> broadcast(lambda: 3)
        3
    """
    value: Any = None
    error: Exception | None = None
    if pg is None or pg.rank() == rank:
        if not success:
            error = ValueError("success is false")
        else:
            value, error = _call(data_or_fn)
    if pg is not None:
        shared = [(value, error)]
        dist.broadcast_object_list(shared, group=pg, group_src=rank)
        value, error = shared[0]
    if error is not None:
        stage = "" if stage_name is None else f": stage {stage_name}"
        raise RuntimeError(f"Rank {rank} failed{stage}: exception {error}") from error
    return value


def all_gather(
    data_or_fn: T | Callable[[], T], stage_name: str | None = None, pg: ProcessGroup | None = None
) -> list[T]:
    """Return the values of all ranks, on all ranks.

    Args:
        data_or_fn: the value, or a function without arguments that returns it.
        stage_name: a name for errors.
        pg: the ranks. Without a group, this process does everything.

    Raises:
        RuntimeError: on all ranks, if the function fails on one of them. It has the error as its cause.

    Example:
        >>> from pytpu.distributed.collective_utils import all_gather
        >>> all_gather(3)
        [3]
    """
    outcomes = [_call(data_or_fn)]
    if pg is not None:
        gathered: list[Any] = [None] * pg.size()
        dist.all_gather_object(gathered, outcomes[0], group=pg)
        outcomes = gathered
    errors = [error for _, error in outcomes if error is not None]
    if errors:
        stage = "" if stage_name is None else f" for stage {stage_name}"
        raise RuntimeError(f"all_gather failed{stage} with exception {errors[0]}") from errors[0]
    return [value for value, _ in outcomes]


def all_gather_object_enforce_type(
    pg: ProcessGroup,
    object_list: list[Any],
    obj: Any,
    type_checker: Callable[[Any, Any], bool] = lambda x, y: type(x) is type(y),
) -> None:
    """Gather an object of each rank, and check that all of them are of one type.

    Args:
        pg: the ranks.
        object_list: a list with a place for each rank.
        obj: the object of this rank.
        type_checker: returns whether two objects that follow each other fit together.

    Raises:
        TypeError: on all ranks, if two objects do not fit together.
    """
    dist.all_gather_object(object_list, obj, group=pg)
    for i in range(1, len(object_list)):
        first, second = object_list[i - 1], object_list[i]
        if not type_checker(first, second):
            raise TypeError(f"Object type at index {i} is {type(second)}, while first object type is {type(first)}")


def _call(data_or_fn: Any) -> tuple[Any, Exception | None]:
    if not callable(data_or_fn):
        return data_or_fn, None
    try:
        return data_or_fn(), None
    except Exception as error:
        return None, error
