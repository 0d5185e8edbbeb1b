"""Watchers of collectives, such as `torch.distributed.tensor.debug.CommDebugMode`.

A watcher is a function that gets the name of each collective of its thread. Collectives that return new tensors have
the names of `torch.ops.c10d_functional`, and those that write into tensors have the names of `torch.ops.c10d`.
"""

from __future__ import annotations

import contextlib
import threading

from .. import _C
from . import _methods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: Names of collectives that return new tensors by those of `_C._observe_collectives`. Messages between two ranks are
#: left out.
_FUNCTIONAL = {
    "all_reduce": "all_reduce",
    "reduce": "reduce_",
    "broadcast": "broadcast",
    "all_gather": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter_tensor",
    "all_to_all": "all_to_all_single",
}
#: Names of collectives that write into tensors by the methods of engines.
_IN_PLACE = {
    "all_reduce": "allreduce_",
    "broadcast": "broadcast_",
    "reduce": "reduce_",
    "all_gather": "allgather_",
    "gather": "gather_",
    "scatter": "scatter_",
    "reduce_scatter": "reduce_scatter_",
    "all_to_all": "alltoall_",
    "all_to_all_single": "alltoall_base_",
}
#: The same for calls with one tensor for all ranks.
_OF_ONE = {"all_gather": "_allgather_base_", "reduce_scatter": "_reduce_scatter_base_"}
#: The same for calls with several inputs.
_OF_MANY = {
    "all_reduce": "allreduce_coalesced_",
    "all_gather": "allgather_into_tensor_coalesced_",
    "reduce_scatter": "reduce_scatter_tensor_coalesced_",
}


class _Watchers(threading.local):
    """The watchers of a thread, and how many calls around this one hide the collectives that they are made of."""

    def __init__(self) -> None:
        self.functions: list[Callable[[str], None]] = []
        self.hiding = 0


_watchers = _Watchers()
_lock = threading.Lock()
#: How many watchers there are in all threads.
_count = 0


def notify(name: str) -> None:
    """Tell the watchers of this thread of a collective."""
    if not _watchers.hiding:
        for function in list(_watchers.functions):
            function(name)


def notify_functional(kind: str) -> None:
    """Tell the watchers of a collective that returns a new tensor. `kind` is the name of its method."""
    name = _FUNCTIONAL.get(kind)
    if name is not None:
        notify(name)


@contextlib.contextmanager
def one_collective(name: str | None) -> Iterator[None]:
    """Count the collectives within the context as one of this name, or as none."""
    if name is not None:
        notify(name)
    _watchers.hiding += 1
    try:
        yield
    finally:
        _watchers.hiding -= 1


class _WatchedEngine:
    """An engine that tells the watchers of this thread of each call."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._engine, name)
        if name not in _IN_PLACE:
            return method

        def watched(outputs: list[Any], *arguments: Any) -> Any:
            inputs = arguments[0] if arguments and isinstance(arguments[0], list) else outputs
            # On device `tpu` the method records the collective as one that returns a new tensor.
            with one_collective(_name(name, len(outputs), len(inputs))):
                return method(outputs, *arguments)

        return watched


def _name(method: str, outputs: int, inputs: int) -> str:
    if outputs == inputs == 1:
        return _OF_ONE.get(method, _IN_PLACE[method])
    if method == "all_gather" and 1 < inputs < outputs:
        return "allgather_coalesced_"
    if method == "all_reduce" or inputs == outputs:
        return _OF_MANY.get(method, _IN_PLACE[method])
    return _IN_PLACE[method]


def _observe(engine: Any) -> Any:
    return _WatchedEngine(engine) if _watchers.functions else engine


def watch(function: Callable[[str], None]) -> None:
    """Call `function` with the name of each collective of this thread."""
    global _count
    if not _watchers.functions:
        _C._observe_collectives(notify_functional)
    _watchers.functions.append(function)
    with _lock:
        _count += 1
        _methods._observer = _observe


def unwatch(function: Callable[[str], None]) -> None:
    """Undo `watch`, on the same thread."""
    global _count
    _watchers.functions.remove(function)
    if not _watchers.functions:
        _C._observe_collectives(None)
    with _lock:
        _count -= 1
        if _count == 0:
            _methods._observer = None
