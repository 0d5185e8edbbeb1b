"""A group that compares each collective between its ranks before it runs, as PyTorch does at level `DETAIL`."""

from __future__ import annotations

from .. import Tensor
from .._C import PrefixStore, Store
from ..utils._pytree import tree_leaves
from ._process_group import ProcessGroupGloo
from .constants import default_pg_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable
    from typing import Any

#: Name of each collective in reports, and the position of the tensors whose shapes must be equal on all ranks.
_CHECKED = {
    "allreduce": ("ALLREDUCE", 0),
    "allreduce_coalesced": ("ALLREDUCE_COALESCED", 0),
    "broadcast": ("BROADCAST", 0),
    "reduce": ("REDUCE", 0),
    "allgather": ("ALLGATHER", 1),
    "allgather_coalesced": ("ALLGATHER_COALESCED", 1),
    "_allgather_base": ("ALLGATHER_BASE", 1),
    "all_gather_single": ("ALLGATHER_BASE", 1),
    "all_gather_single_coalesced": ("ALLGATHER_COALESCED", 1),
    "allgather_into_tensor_coalesced": ("ALLGATHER_COALESCED", 1),
    "gather": ("GATHER", 1),
    "scatter": ("SCATTER", 0),
    "reduce_scatter": ("REDUCE_SCATTER", 0),
    "_reduce_scatter_base": ("REDUCE_SCATTER_BASE", 0),
    "reduce_scatter_single": ("REDUCE_SCATTER_BASE", 0),
    "reduce_scatter_single_coalesced": ("REDUCE_SCATTER_COALESCED", 0),
    "reduce_scatter_tensor_coalesced": ("REDUCE_SCATTER_COALESCED", 0),
    "alltoall": ("ALLTOALL", None),
    "alltoall_base": ("ALLTOALL_BASE", None),
    "all_to_all_single": ("ALLTOALL_BASE", None),
    "barrier": ("BARRIER", None),
}


def _describe(name: str, place: int | None, arguments: tuple[Any, ...]) -> str:
    """Return a text that must be equal on all ranks."""
    parts = [f"OpType={name}"]
    if place is not None and len(arguments) > place:
        tensors = [each for each in tree_leaves(arguments[place]) if isinstance(each, Tensor)]
        parts.append(f"TensorShape={[list(each.shape) for each in tensors]}")
        parts.append(f"TensorDtypes={[str(each.dtype) for each in tensors]}")
    for options in arguments:
        for key in ("reduceOp", "rootRank"):
            if hasattr(options, key):
                parts.append(f"{key}={getattr(options, key)}")
    return ", ".join(parts)


class _ProcessGroupWrapper:
    """The methods of a group. Each collective first compares its kind, shapes, dtypes, root and reduction.

    Args:
        wrapped: the group, or an engine.
        helper: a group of the same ranks, which compares.
    """

    def __init__(self, wrapped: Any, helper: ProcessGroupGloo) -> None:
        self._wrapped, self._helper = wrapped, helper

    @property
    def wrapped_pg(self) -> Any:
        """The group within."""
        return self._wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def rank(self) -> int:
        """Return this rank."""
        rank: int = self._wrapped.rank()
        return rank

    def size(self) -> int:
        """Return the number of ranks."""
        size: int = self._wrapped.size()
        return size

    def name(self) -> str:
        """Return the name of the engine within."""
        name: str = self._wrapped.name()
        return name

    def shutdown(self) -> None:
        """Leave both groups."""
        self._helper._engine.close()
        found = getattr(self._wrapped, "shutdown", None)
        if found is not None:
            found()


def _check(method: str) -> Callable[..., Any]:
    name, place = _CHECKED[method]

    def collective(self: _ProcessGroupWrapper, *arguments: Any, **options: Any) -> Any:
        self._helper._engine.agree(_describe(name, place, (*arguments, *options.values())))
        return getattr(self._wrapped, method)(*arguments, **options)

    collective.__name__ = method
    collective.__doc__ = f"Compare the call on all ranks, then call `{method}` of the group."
    return collective


for _method in _CHECKED:
    setattr(_ProcessGroupWrapper, _method, _check(_method))


def _create_process_group_wrapper(
    wrapped_pg: Any,
    store_prefix: str,
    store: Store,
    rank: int,
    world_size: int,
    timeout: datetime.timedelta = default_pg_timeout,
) -> _ProcessGroupWrapper:
    """Return a group that compares each collective between its ranks before `wrapped_pg` runs it.

    A rank with another collective, shape, dtype, root or reduction then raises at the call, on all ranks.

    Args:
        wrapped_pg: the group, or an engine.
        store_prefix: a prefix of keys for the ranks to meet.
        store: the store in which they meet.
        rank: this rank.
        world_size: the number of ranks.
        timeout: the limit of each comparison.
    """
    meeting = PrefixStore(f"pg_wrapper:{store_prefix}", store)
    return _ProcessGroupWrapper(wrapped_pg, ProcessGroupGloo(meeting, rank, world_size, timeout=timeout))
