"""How the ranks of a pipeline exchange tensors: point-to-point messages of a process group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pytpu as torch

from ... import distributed as dist


class _Pending(Protocol):
    """A message under way."""

    def wait(self) -> Any:
        """Wait until the tensor can be used again, or has been received."""


class _Transport:
    """Messages between the ranks of a pipeline. A rank gets those of another rank in the order of their sending.

    Schedules use a process group. A subclass can be passed as the group of a stage instead, to connect ranks in
    another way. `rank` and `size` are those of the pipeline.
    """

    rank: int
    size: int

    def send_op(self, tensor: torch.Tensor, peer: int) -> Any:
        """Describe the sending of a contiguous tensor to rank `peer`."""
        raise NotImplementedError

    def recv_op(self, buffer: torch.Tensor, peer: int) -> Any:
        """Describe the receipt of a tensor from rank `peer` in `buffer`."""
        raise NotImplementedError

    def post(self, ops: Sequence[Any]) -> Sequence[_Pending]:
        """Start what was described, without waiting."""
        raise NotImplementedError

    def send_object(self, value: Any, peer: int) -> None:
        """Send an object that can be pickled to rank `peer`."""
        raise NotImplementedError

    def recv_object(self, peer: int) -> Any:
        """Return the object that rank `peer` sends."""
        raise NotImplementedError

    def all(self, flag: bool) -> bool:
        """Return whether `flag` is true on all ranks. All ranks have to call it."""
        raise NotImplementedError


class _GroupTransport(_Transport):
    """Messages by `torch.distributed`, which sends tensors of an accelerator through the host.

    Args:
        group: Process group, or `None` for the default group.
    """

    def __init__(self, group: Any) -> None:
        self._group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)

    def _global(self, peer: int) -> int:
        return peer if self._group is None else dist.get_global_rank(self._group, peer)

    def send_op(self, tensor: torch.Tensor, peer: int) -> dist.P2POp:
        return dist.P2POp(dist.isend, tensor, self._global(peer), self._group)

    def recv_op(self, buffer: torch.Tensor, peer: int) -> dist.P2POp:
        return dist.P2POp(dist.irecv, buffer, self._global(peer), self._group)

    def post(self, ops: Sequence[dist.P2POp]) -> Sequence[_Pending]:
        return _batch_p2p(ops)

    def send_object(self, value: Any, peer: int) -> None:
        dist.send_object_list([value], dst=self._global(peer), group=self._group)

    def recv_object(self, peer: int) -> Any:
        received = [None]
        dist.recv_object_list(received, src=self._global(peer), group=self._group)
        return received[0]

    def all(self, flag: bool) -> bool:
        vote = torch.tensor([int(flag)], dtype=torch.int32)
        dist.all_reduce(vote, op=dist.ReduceOp.MIN, group=self._group)
        return bool(vote.item())


def _transport_of(group: Any) -> _Transport:
    """Return the transport of a stage's `group`."""
    return group if isinstance(group, _Transport) else _GroupTransport(group)


def _batch_p2p(p2p_ops: Sequence[dist.P2POp], desc: str | None = None) -> Sequence[_Pending]:
    """Start messages of process groups, if there are any. `desc` has no effect."""
    return dist.batch_isend_irecv([*p2p_ops]) if p2p_ops else []


def _wait_batch_p2p(work: Sequence[_Pending]) -> None:
    """Wait for messages that are under way."""
    for pending in work:
        pending.wait()
