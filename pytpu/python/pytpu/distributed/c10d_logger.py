"""A log of collectives that fail, and decorators that write to it."""

from __future__ import annotations

import functools
import logging
import time
from typing import Any, TypeVar

from . import distributed_c10d as dist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__: list[str] = []

T = TypeVar("T")

#: Nothing is written unless a program adds a handler and sets the level to `DEBUG`.
_c10d_logger = logging.getLogger("torch.distributed.c10d_logger")
_c10d_logger.addHandler(logging.NullHandler())


def _describe(name: str, group: Any, **more: str) -> dict[str, str]:
    """Return the name of a function, and the group that it was called with."""
    what = {"func_name": name}
    if dist.is_initialized():
        pg = group or dist._get_default_group()
        what |= {
            "pg_name": str(None if group is None else dist._get_process_group_name(pg)),
            "backend": str(dist.get_backend(pg)),
            "world_size": str(dist.get_world_size()),
            "group_size": str(dist.get_world_size(pg)),
            "global_rank": str(dist.get_rank()),
            "local_rank": str(dist.get_rank(pg)),
        }
    return what | more


def _exception_logger(func: Callable[..., T]) -> Callable[..., T]:
    """Return `func`, which logs the group and the error if it raises."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> T:
        try:
            return func(*args, **kwargs)
        except Exception as error:
            _c10d_logger.debug(_describe(func.__name__, kwargs.get("group"), error=str(error)))
            raise

    return call


def _time_logger(func: Callable[..., T]) -> Callable[..., T]:
    """Return `func`, which logs the group and its time in nanoseconds."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> T:
        begin = time.monotonic_ns()
        result = func(*args, **kwargs)
        spent = f"{time.monotonic_ns() - begin}"
        _c10d_logger.debug(_describe(func.__name__, kwargs.get("group"), time_spent=spent))
        return result

    return call
