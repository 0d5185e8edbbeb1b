"""Options of the methods of process groups."""

from __future__ import annotations

import datetime

from ._reduce_op import RedOpType, ReduceOp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .. import device as _device

#: The timeout of options that state none: that of the group.
_UNSET = datetime.timedelta(milliseconds=-1)


class _Options:
    """How a collective is called. Fields can be set in the constructor, by name."""

    timeout: datetime.timedelta = _UNSET
    asyncOp: bool = True

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            if not hasattr(self, name):
                raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument '{name}'")
            setattr(self, name, value)


class _ReducingOptions(_Options):
    """Options of a collective that combines."""

    _reduction = ReduceOp(RedOpType.SUM)

    @property
    def reduceOp(self) -> ReduceOp:
        """The reduction. A `RedOpType` may be set, too."""
        return self._reduction

    @reduceOp.setter
    def reduceOp(self, reduction: ReduceOp | RedOpType) -> None:
        self._reduction = ReduceOp(reduction) if isinstance(reduction, RedOpType) else reduction


class AllreduceOptions(_ReducingOptions):
    """Options of `allreduce`: `reduceOp`, `timeout`, `asyncOp`."""


class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of `allreduce_coalesced`: `reduceOp`, `timeout`, `asyncOp`."""


class BroadcastOptions(_Options):
    """Options of `broadcast`: `rootRank`, `rootTensor`, `timeout`, `asyncOp`."""

    rootRank: int = 0
    rootTensor: int = 0


class ReduceOptions(_ReducingOptions, BroadcastOptions):
    """Options of `reduce`: `reduceOp`, `rootRank`, `rootTensor`, `timeout`, `asyncOp`."""


class AllgatherOptions(_Options):
    """Options of `allgather`: `timeout`, `asyncOp`."""


class GatherOptions(_Options):
    """Options of `gather`: `rootRank`, `timeout`, `asyncOp`."""

    rootRank: int = 0


class ScatterOptions(_Options):
    """Options of `scatter`: `rootRank`, `timeout`, `asyncOp`."""

    rootRank: int = 0


class ReduceScatterOptions(_ReducingOptions):
    """Options of `reduce_scatter`: `reduceOp`, `timeout`, `asyncOp`."""


class AllToAllOptions(_Options):
    """Options of `alltoall`: `timeout`, `asyncOp`."""


class BarrierOptions(_Options):
    """Options of `barrier`: `device_ids`, `device`, `timeout`, `asyncOp`."""

    device_ids: list[int] = []
    device: _device | None = None
