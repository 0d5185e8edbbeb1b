"""Collectives of tensors on device `tpu`.

`_TraceEngine` has the methods of `_C._ProcessGroup` that take tensors. It records the collective as any other op,
and writes its result into the tensors of the call, without history. The value is waited for where it is read. Messages
go through the host.
"""

from __future__ import annotations

import datetime

from .. import Tensor, cat, empty_like, no_grad
from .._C import Work, _ProcessGroup
from ..futures import Future
from . import _groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _TraceWork(Work):
    """A collective that is recorded. Its results can be used at once, so that waiting for it does nothing."""

    def __init__(self, result: Any) -> None:
        self._result = result
        self._future: Future[Any] | None = None

    def wait(self, timeout: datetime.timedelta = datetime.timedelta()) -> bool:
        """Return `True`. A read of the results waits, and raises the error of the collective."""
        return True

    def synchronize(self) -> None:
        """Do nothing: later ops see the results."""

    def block_current_stream(self) -> None:
        """Do nothing: later ops see the results."""

    def is_completed(self) -> bool:
        """Return `True`, because the results can be used."""
        return True

    def is_success(self) -> bool:
        """Return `True`, because the results can be used."""
        return True

    def exception(self) -> None:
        """Return `None`: a read of the results raises the error of the collective."""

    def result(self) -> Any:
        """Return the tensors that were written."""
        return self._result

    def get_future(self) -> Future[Any]:
        """Return a future that has the tensors that were written."""
        if self._future is None:
            self._future = Future()
            self._future.set_result(self._result)
        return self._future


class _Received(Work):
    """A message that is received in host memory, and copied to its tensor when it was waited for."""

    def __init__(self, work: Work, finish: Callable[[], None], result: Any) -> None:
        self._work = work
        self._finish: Callable[[], None] | None = finish
        self._result = result

    def wait(self, timeout: datetime.timedelta = datetime.timedelta()) -> bool:
        """Wait until the message is there, and return `True`."""
        self._work.wait(timeout)
        if self._finish is not None:
            self._finish()
            self._finish = None
        return True

    def synchronize(self) -> None:
        """Wait until the message is there."""
        self.wait()

    def block_current_stream(self) -> None:
        """Wait until the message is there."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether the message is there, or has failed."""
        return self._work.is_completed()

    def is_success(self) -> bool:
        """Whether the message is there."""
        return self._work.is_success()

    def exception(self) -> Any:
        """Return the exception of the message, or `None`."""
        return self._work.exception()

    def result(self) -> Any:
        """Return the tensor, in a list. The message must be there."""
        self._work.result()
        self.wait()
        return self._result

    def get_future(self) -> Future[Any]:
        """Return a future of the tensor, in a list."""

        def finished(future: Future[Any]) -> Any:
            future.value()
            return self.result()

        return self._work.get_future().then(finished)

    def source_rank(self) -> int:
        """Return the rank that the message came from. The message must be there."""
        return self._work.source_rank()

    _source_rank = source_rank


def _write(targets: list[Tensor], values: list[Tensor], call: tuple[Any, ...]) -> Work | None:
    """Write the results of a collective. `call` says whether the caller wants a `Work`, and what that returns.

    As in PyTorch, saved tensors do not notice the writes of collectives.
    """
    with no_grad():
        for target, value in zip(targets, values, strict=True):
            target.data.copy_(value.reshape(target.shape))
    return _TraceWork(call[2]) if call[0] else None


def _rows(tensors: list[Tensor]) -> Tensor:
    """Return tensors as one row of elements."""
    return cat([tensor.detach().reshape(-1) for tensor in tensors])


def _parts(row: Tensor, targets: list[Tensor]) -> list[Tensor]:
    """Split a row of elements into the parts of tensors."""
    return list(row.split([target.numel() for target in targets])) if targets else []


class _TraceEngine:
    """Collectives of a group on device `tpu`, with the methods of `_C._ProcessGroup`.

    Args:
        engine: the group on device `cpu`.
        rank: this rank.
        size: the number of ranks.
        partition: the global ranks of each group that was made together with this one.
    """

    def __init__(self, engine: _ProcessGroup, rank: int, size: int, partition: list[list[int]] | None = None) -> None:
        self._engine = engine
        self._rank = rank
        self._size = size
        self.group = engine.tensors(partition, is_on_host=_groups._are_threads())

    def close(self) -> None:
        """Wait until the recorded collectives have run, and leave the group."""
        self.group.close()

    def all_reduce(self, tensors: list[Tensor], op: int, call: tuple[Any, ...]) -> Work | None:
        """Combine each of `tensors` of all ranks, on all ranks."""
        return _write(tensors, [self.group.all_reduce(tensor.detach(), op) for tensor in tensors], call)

    def broadcast(self, tensors: list[Tensor], root: int, call: tuple[Any, ...]) -> Work | None:
        """Copy each of `tensors` of rank `root` to all ranks."""
        return _write(tensors, [self.group.broadcast(tensor.detach(), root) for tensor in tensors], call)

    def reduce(self, tensors: list[Tensor], op: int, root: int, call: tuple[Any, ...]) -> Work | None:
        """Combine each of `tensors` of all ranks, on rank `root`. The other ranks keep theirs."""
        values = [self.group.reduce(tensor.detach(), op, root) for tensor in tensors]
        if root != self._rank:
            tensors, values = [], []
        return _write(tensors, values, call)

    def all_gather(self, outputs: list[Tensor], inputs: list[Tensor], call: tuple[Any, ...]) -> Work | None:
        """Gather `inputs` of all ranks in `outputs`, on all ranks."""
        return _write(outputs, _parts(self.group.all_gather(_rows(inputs)), outputs), call)

    def gather(self, outputs: list[Tensor], inputs: list[Tensor], root: int, call: tuple[Any, ...]) -> Work | None:
        """Gather `inputs` of all ranks in `outputs`, on rank `root`."""
        row = _rows(inputs)
        sent = [row.numel() if to == root else 0 for to in range(self._size)]
        received = [row.numel() if self._rank == root else 0] * self._size
        return _write(outputs, _parts(self.group.all_to_all(row, sent, received), outputs), call)

    def scatter(self, outputs: list[Tensor], inputs: list[Tensor], root: int, call: tuple[Any, ...]) -> Work | None:
        """Hand each rank its part of `inputs` of rank `root`."""
        part = sum(output.numel() for output in outputs)
        is_root = self._rank == root
        row = _rows(inputs) if is_root else _rows(outputs)[:0]
        received = [part if source == root else 0 for source in range(self._size)]
        value = self.group.all_to_all(row, [part if is_root else 0] * self._size, received)
        return _write(outputs, _parts(value, outputs), call)

    def reduce_scatter(
        self, outputs: list[Tensor], inputs: list[Tensor], op: int, call: tuple[Any, ...]
    ) -> Work | None:
        """Combine `inputs` of all ranks, and hand each rank its part."""
        return _write(outputs, _parts(self.group.reduce_scatter(_rows(inputs), op), outputs), call)

    def all_to_all(self, outputs: list[Tensor], inputs: list[Tensor], call: tuple[Any, ...]) -> Work | None:
        """Hand rank `i` the tensor `inputs[i]`, and get `outputs[i]` from it."""
        sent, received = [x.numel() for x in inputs], [y.numel() for y in outputs]
        return _write(outputs, _parts(self.group.all_to_all(_rows(inputs), sent, received), outputs), call)

    def all_to_all_single(
        self,
        outputs: list[Tensor],
        inputs: list[Tensor],
        sent: list[int],
        received: list[int],
        call: tuple[Any, ...],
    ) -> Work | None:
        """Hand each rank rows of the tensor in `inputs`, and get rows of that in `outputs` from each."""
        return _write(outputs, [self.group.all_to_all(inputs[0].detach(), sent, received)], call)

    def send(self, tensors: list[Tensor], to: int, tag: int, is_async: bool) -> Work | None:
        """Send the tensor of a list of one to a rank, through the host."""
        return self._engine.send([tensor.detach().cpu() for tensor in tensors], to, tag, is_async)

    def recv(self, tensors: list[Tensor], source: int | None, tag: int) -> int:
        """Receive the tensor of a list of one, through the host. Return the rank that it came from."""
        buffers = [empty_like(tensor, device="cpu", requires_grad=False) for tensor in tensors]
        source = self._engine.recv(buffers, source, tag)
        _write(tensors, buffers, (False,))
        return source

    def irecv(self, tensors: list[Tensor], source: int | None, tag: int, result: Any) -> Work:
        """Begin to receive the tensor of a list of one, through the host."""
        buffers = [empty_like(tensor, device="cpu", requires_grad=False) for tensor in tensors]
        work = self._engine.irecv(buffers, source, tag, buffers)

        def finish() -> None:
            _write(tensors, buffers, (False,))

        return _Received(work, finish, result)
