"""Groups whose collectives are methods of Python objects.

`Backend.register_backend` names a function that makes such an object: a `ProcessGroup` or a `_Backend` with PyTorch's
methods `allreduce`, `broadcast` and so on, which take lists of tensors and options, and return a `Work`.
`_MethodEngine` gives it the methods of `_C._ProcessGroup`, so that all functions of `torch.distributed` run on it.
"""

from __future__ import annotations

import datetime

from .. import Tensor, cat, no_grad
from .._C import HashStore, PrefixStore, Store, Work
from ..autograd import Function
from ..futures import Future
from . import _groups
from ._methods import _Collectives
from ._options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    _Options,
)
from ._process_group import _make_engine
from ._reduce_op import RedOpType
from ._trace import _TraceWork
from ._watching import notify_functional
from .constants import default_pg_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._C import _TensorGroup


class _Backend:
    """A base class of engines that are written in Python. Such a class has the methods of the collectives it offers.

    Args:
        rank: this rank.
        size: the number of ranks.
    """

    class Options:
        """Options of an engine: its name, and the timeout of each collective."""

        def __init__(self, backend: str, timeout: datetime.timedelta = default_pg_timeout) -> None:
            self.backend, self._timeout = backend, timeout
            self.group_name = ""
            self.global_ranks_in_group: list[int] = []

    #: Whether `ProcessGroup.split_group` can ask the engine for a part of its ranks.
    supports_splitting = False
    supports_coalescing = False

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size

    def rank(self) -> int:
        """Return this rank."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    def getBackendName(self) -> str:
        """Return the name of the engine."""
        return "custom"

    def name(self) -> str:
        """Return the name of the engine."""
        return self.getBackendName()


class _BackendOptions:
    """The group to make an engine for, which a function of `Backend.register_backend` with `extended_api` gets."""

    def __init__(self) -> None:
        self.store: Store | None = None
        self.group_rank = self.group_size = 0
        self.timeout = default_pg_timeout
        self.group_id = ""
        self.global_ranks_in_group: list[int] = []


def _create_work_from_future(future: Future[Any]) -> Work:
    """Return a `Work` that is done when `future` has its value."""
    return _FutureWork(future)


class _FutureWork(Work):
    """The work of a `torch.futures.Future`."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def wait(self, timeout: datetime.timedelta = datetime.timedelta()) -> bool:
        """Wait for the value, and return `True`."""
        self._future.wait()
        return True

    def synchronize(self) -> None:
        """Wait for the value."""
        self._future.wait()

    def is_completed(self) -> bool:
        """Return whether the value is there."""
        return self._future.done()

    def is_success(self) -> bool:
        """Return whether the value is there, and no error."""
        return self._future.done() and self.exception() is None

    def exception(self) -> BaseException | None:
        """Return the error, or `None`."""
        try:
            self._future.value()
        except Exception as error:
            return error
        return None

    def result(self) -> Any:
        """Return the value."""
        return self._future.value()

    def get_future(self) -> Future[Any]:
        """Return the future."""
        return self._future


class _MethodEngine:
    """The engine of a group, by the methods of a Python object.

    Args:
        target: the object.
        rank: this rank.
        size: the number of ranks.
        timeout: the limit of each collective.
    """

    def __init__(self, target: Any, rank: int, size: int, timeout: datetime.timedelta = default_pg_timeout) -> None:
        self.target, self._rank, self._size, self.timeout = target, rank, size, timeout
        self._calls = 0
        #: The store and the name of the group, for `native`.
        self.store: Store | None = None
        self.name = ""
        self._native: _TensorGroup | None = None

    def _method(self, *names: str) -> Callable[..., Any]:
        """Return the first method of these names that the object's class defines itself."""
        for name in names:
            found = getattr(type(self.target), name, None)
            if found is not None and found is not getattr(_Collectives, name, None):
                return getattr(self.target, name)
        raise RuntimeError(f"Backend {self.target.name()} does not support {names[0]}")

    def _run(self, method: Callable[..., Any], arguments: tuple[Any, ...], options: _Options, call: Any) -> Any:
        is_async, timeout, _ = call
        if timeout is not None:
            options.timeout = timeout
        self._calls += 1
        work = method(*arguments, options)
        if is_async:
            return work
        if work is not None:
            work.wait()
        return None

    def all_reduce(self, tensors: list[Tensor], op: int, call: Any) -> Any:
        """Combine each of `tensors` of all ranks."""
        if len(tensors) == 1:
            options: AllreduceOptions = AllreduceOptions(reduceOp=RedOpType(op))
            return self._run(self._method("allreduce"), (tensors,), options, call)
        options = AllreduceCoalescedOptions(reduceOp=RedOpType(op))
        return self._run(self._method("allreduce_coalesced"), (tensors,), options, call)

    def broadcast(self, tensors: list[Tensor], root: int, call: Any) -> Any:
        """Copy `tensors` of rank `root` to all ranks."""
        return self._run(self._method("broadcast"), (tensors,), BroadcastOptions(rootRank=root), call)

    def reduce(self, tensors: list[Tensor], op: int, root: int, call: Any) -> Any:
        """Combine `tensors` of all ranks on rank `root`."""
        options = ReduceOptions(rootRank=root, reduceOp=RedOpType(op))
        return self._run(self._method("reduce"), (tensors,), options, call)

    def all_gather(self, outputs: list[Tensor], inputs: list[Tensor], call: Any) -> Any:
        """Gather `inputs` of all ranks in `outputs`: a tensor for each, or one for all."""
        options = AllgatherOptions()
        if len(inputs) > 1:
            lists = [outputs[at : at + len(inputs)] for at in range(0, len(outputs), len(inputs))]
            return self._run(self._method("allgather_coalesced"), (lists, inputs), options, call)
        if len(outputs) == self._size and outputs[0].shape == inputs[0].shape:
            return self._run(self._method("allgather"), ([outputs], inputs), options, call)
        method = self._method("all_gather_single", "_allgather_base")
        return self._run(method, (outputs[0], inputs[0]), options, call)

    def gather(self, outputs: list[Tensor], inputs: list[Tensor], root: int, call: Any) -> Any:
        """Gather `inputs` of all ranks in `outputs` of rank `root`."""
        if outputs and len(outputs) != self._size:
            outputs = list(outputs[0].detach().view(self._size, *inputs[0].shape))
        arguments = ([outputs] if outputs else [], inputs)
        return self._run(self._method("gather"), arguments, GatherOptions(rootRank=root), call)

    def scatter(self, outputs: list[Tensor], inputs: list[Tensor], root: int, call: Any) -> Any:
        """Hand each rank a tensor of `inputs` of rank `root`."""
        arguments = (outputs, [inputs] if inputs else [])
        return self._run(self._method("scatter"), arguments, ScatterOptions(rootRank=root), call)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[Tensor], op: int, call: Any) -> Any:
        """Combine `inputs` of all ranks, and hand each rank its part."""
        options = ReduceScatterOptions(reduceOp=RedOpType(op))
        if len(inputs) == self._size and inputs[0].shape == outputs[0].shape:
            return self._run(self._method("reduce_scatter"), (outputs, [inputs]), options, call)
        method = self._method("reduce_scatter_single", "_reduce_scatter_base")
        return self._run(method, (outputs[0], inputs[0]), options, call)

    def all_to_all(self, outputs: list[Tensor], inputs: list[Tensor], call: Any) -> Any:
        """Hand rank `i` the tensor `inputs[i]`, and get `outputs[i]` from it."""
        return self._run(self._method("alltoall"), (outputs, inputs), AllToAllOptions(), call)

    def all_to_all_single(
        self, outputs: list[Tensor], inputs: list[Tensor], sent: list[int], received: list[int], call: Any
    ) -> Any:
        """Hand each rank rows of a tensor, and get rows from each."""
        method = self._method("all_to_all_single", "alltoall_base")
        return self._run(method, (outputs[0], inputs[0], received, sent), AllToAllOptions(), call)

    def barrier(self, call: Any) -> Any:
        """Wait until all ranks are here."""
        return self._run(self._method("barrier"), (), BarrierOptions(), call)

    def monitored_barrier(self, timeout: datetime.timedelta, wait_all: bool) -> None:
        """Wait until all ranks are here."""
        self._method("monitored_barrier", "monitoredBarrier")(timeout, wait_all)

    def send(self, tensors: list[Tensor], to: int, tag: int, is_async: bool) -> Any:
        """Send a tensor."""
        work = self._method("send")(tensors, to, tag)
        return work if is_async or work is None else (work.wait(), None)[1]

    def irecv(self, tensors: list[Tensor], source: int | None, tag: int, result: Any) -> Any:
        """Begin to receive a tensor."""
        if source is None:
            return self._method("recv_anysource", "recvAnysource")(tensors, tag)
        return self._method("recv")(tensors, source, tag)

    def recv(self, tensors: list[Tensor], source: int | None, tag: int) -> int:
        """Receive a tensor, and return the rank that it came from."""
        work = self.irecv(tensors, source, tag, tensors)
        work.wait()
        return work._source_rank() if source is None else source

    def agree(self, text: str) -> None:
        """Do nothing: how ranks make further groups is up to the object."""

    def sequence(self) -> int:
        """Return the number of collectives called so far."""
        return self._calls

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Set the limit of later collectives."""
        self.timeout = timeout

    def abort(self, reason: str) -> None:
        """Abort the object, if it can be."""
        self._if_defined("abort")

    def close(self) -> None:
        """Shut the object down, if it can be."""
        self._if_defined("shutdown")
        if self._native is not None:
            self._native.close()

    def _if_defined(self, name: str) -> None:
        found = getattr(type(self.target), name, None)
        if found is not None and found is not getattr(_Collectives, name, None):
            getattr(self.target, name)()

    def tensors(self) -> _MethodTensors:
        """Return the collectives that return new tensors."""
        return _MethodTensors(self, self._rank, self._size)

    def native(self) -> _TensorGroup:
        """Return a group of this library of the same ranks, which meet in the store of the group.

        The other ranks of backend `fake` count as having the elements of this one.
        """
        if self._native is None:
            is_alone = isinstance(self.target, FakeProcessGroup)
            if self.store is None and not is_alone:
                raise NotImplementedError("sharded tensors need a group whose ranks can meet in a store")
            store = HashStore() if is_alone else PrefixStore("native", self.store)
            ranks = list(range(self._size))
            engine = _make_engine(store, self._rank, self._size, self.name, self.timeout, ranks, is_planned=is_alone)
            self._native = engine.tensors(is_on_host=_groups._are_threads())
        return self._native


_WAIT = (False, None, None)


class _Exchange(Function):
    """A collective and its gradient, which is another collective."""

    @staticmethod
    def forward(ctx, x, run, back):
        """Return `run(x)`."""
        ctx.back = back
        return run(x.detach().contiguous())

    @staticmethod
    def backward(ctx, g):
        """Return `back(g)`."""
        return ctx.back(g), None, None


class _MethodTensors:
    """Collectives that return new tensors, with the methods of `_C._TensorGroup`."""

    def __init__(self, engine: _MethodEngine, rank: int, size: int) -> None:
        self._engine, self._rank, self._size = engine, rank, size

    def all_reduce(self, x: Tensor, op: int) -> Tensor:
        """Return `x` of all ranks, combined."""

        def run(x: Tensor) -> Tensor:
            y = x.clone()
            notify_functional("all_reduce")
            self._engine.all_reduce([y], op, _WAIT)
            return y

        return _Exchange.apply(x, run, lambda g: self._linear(op) or self.all_reduce(g, op))

    @staticmethod
    def _linear(op: int) -> None:
        if RedOpType(op) not in (RedOpType.SUM, RedOpType.AVG):
            raise NotImplementedError(f"the gradient of a collective with {RedOpType(op)} is not implemented")

    def reduce(self, x: Tensor, op: int, to: int) -> Tensor:
        """Return `x` of all ranks, combined, on rank `to`, and zeros on the others."""

        def run(x: Tensor) -> Tensor:
            y = x.clone()
            notify_functional("reduce")
            self._engine.reduce([y], op, to, _WAIT)
            return y if self._rank == to else y.zero_()

        return _Exchange.apply(x, run, lambda g: self._linear(op) or self.broadcast(g, to))

    def broadcast(self, x: Tensor, source: int) -> Tensor:
        """Return `x` of rank `source`."""

        def run(x: Tensor) -> Tensor:
            y = x.clone()
            notify_functional("broadcast")
            self._engine.broadcast([y], source, _WAIT)
            return y

        return _Exchange.apply(x, run, lambda g: self.reduce(g, RedOpType.SUM.value, source))

    def all_gather(self, x: Tensor) -> Tensor:
        """Return `x` of all ranks, concatenated along dimension 0."""

        def run(x: Tensor) -> Tensor:
            y = x.new_empty((self._size * x.shape[0], *x.shape[1:]) if x.dim() else (self._size,))
            notify_functional("all_gather")
            self._engine.all_gather([y], [x], _WAIT)
            return y

        return _Exchange.apply(x, run, lambda g: self.reduce_scatter(g, RedOpType.SUM.value).reshape(x.shape))

    def reduce_scatter(self, x: Tensor, op: int) -> Tensor:
        """Return this rank's part of `x` of all ranks, combined."""

        def run(x: Tensor) -> Tensor:
            y = x.new_empty((x.shape[0] // self._size, *x.shape[1:]))
            notify_functional("reduce_scatter")
            self._engine.reduce_scatter([y], [x], op, _WAIT)
            return y

        def back(g: Tensor) -> Tensor:
            self._linear(op)
            gathered = self.all_gather(g)
            return gathered / self._size if RedOpType(op) is RedOpType.AVG else gathered

        return _Exchange.apply(x, run, back)

    def all_to_all(self, x: Tensor, sent: list[int], received: list[int]) -> Tensor:
        """Return the rows that all ranks have sent."""

        def run(x: Tensor) -> Tensor:
            y = x.new_empty((sum(received), *x.shape[1:]))
            notify_functional("all_to_all")
            self._engine.all_to_all_single([y], [x], list(sent), list(received), _WAIT)
            return y

        return _Exchange.apply(x, run, lambda g: self.all_to_all(g, received, sent))

    def permute(self, x: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
        """Return `x` of the rank that is paired with this one, or zeros."""
        to = next((target for source, target in pairs if source == self._rank), None)
        source = next((source for source, target in pairs if target == self._rank), None)
        n = x.shape[0]
        sent = [n if rank == to else 0 for rank in range(self._size)]
        received = [n if rank == source else 0 for rank in range(self._size)]
        y = self.all_to_all(x if to is not None else x[:0], sent, received)
        return y if source is not None else cat([y, x.new_zeros(x.shape)])

    def close(self) -> None:
        """Do nothing: there is nothing recorded."""


class FakeStore(Store):
    """A store that keeps nothing and waits for nothing, for groups of backend `fake`."""

    def set(self, key: str, value: str | bytes) -> None:
        """Do nothing."""

    def get(self, key: str) -> bytes:
        """Return no bytes."""
        return b""

    def add(self, key: str, amount: int) -> int:
        """Return `amount`."""
        return amount

    def wait(self, keys: list[str], timeout: datetime.timedelta | None = None) -> None:
        """Do nothing."""

    def check(self, keys: list[str]) -> bool:
        """Return `True`."""
        return True

    def delete_key(self, key: str) -> bool:
        """Return `True`."""
        return True

    def num_keys(self) -> int:
        """Return 0."""
        return 0


class FakeProcessGroup(_Backend):
    """The engine of backend `fake`: one process acts as one rank of a job of any size, and no other rank exists.

    Collectives check their arguments and return at once. Results have the right shapes, and values as if all ranks had
    those of this one. Sums are not computed. Use it to try a program for many ranks on one.
    """

    options: Options | None

    class Options(_Backend.Options):
        """Options of the engine: whether each collective raises `RuntimeError`."""

        def __init__(self) -> None:
            super().__init__("fake")
            self.error_on_collective = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        raise TypeError("FakeProcessGroup: No constructor defined! Call init_process_group with backend fake.")

    @classmethod
    def _create_internal(cls, rank: int, size: int, options: Options | None = None) -> FakeProcessGroup:
        """Return an engine."""
        if rank >= size:
            raise RuntimeError(f"Cannot init process group where rank ({rank}) >= world_size ({size})")
        made = object.__new__(cls)
        _Backend.__init__(made, rank, size)
        made.options = options
        return made

    def _done(self, result: Any) -> Work:
        if self.options is not None and self.options.error_on_collective:
            raise RuntimeError("FakeProcessGroup collective operation error (error_on_collective=true)")
        return _TraceWork(result)

    def getBackendName(self) -> str:
        """Return `fake`."""
        return "fake"

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Work:
        """Leave the tensors as they are."""
        return self._done(tensors)

    allreduce_coalesced = broadcast = reduce = allreduce

    def barrier(self, opts: Any = None) -> Work:
        """Do nothing."""
        return self._done([])

    def monitored_barrier(self, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Do nothing."""

    def _fill(self, targets: list[Tensor], sources: list[Tensor]) -> Work:
        with no_grad():
            for target, source in zip(targets, sources, strict=True):
                target.data.copy_(source.detach().reshape(target.shape))
        return self._done(targets)

    def allgather(self, output_tensors: list[list[Tensor]], input_tensors: list[Tensor], opts: Any = None) -> Work:
        """Copy the input to all outputs."""
        outputs = output_tensors[0]
        return self._fill(outputs, input_tensors[:1] * len(outputs))

    def allgather_coalesced(self, output_lists: list[list[Tensor]], input_list: list[Tensor], opts: Any = None) -> Work:
        """Copy the inputs to all lists of outputs."""
        return self._fill([tensor for outputs in output_lists for tensor in outputs], input_list * len(output_lists))

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """Copy the input to all parts of the output."""
        parts = output.detach().view(self._size, -1)
        return self._fill(list(parts), [input] * self._size)

    def gather(self, output_tensors: list[list[Tensor]], input_tensors: list[Tensor], opts: Any = None) -> Work:
        """Copy the input to all outputs, on the root."""
        return self.allgather(output_tensors, input_tensors) if output_tensors else _TraceWork([])

    def scatter(self, output_tensors: list[Tensor], input_tensors: list[list[Tensor]], opts: Any = None) -> Work:
        """Copy this rank's input to the output, on the root."""
        if not input_tensors:
            return self._done(output_tensors)
        return self._fill(output_tensors, [input_tensors[0][self._rank]])

    def reduce_scatter(self, output_tensors: list[Tensor], input_tensors: list[list[Tensor]], opts: Any = None) -> Work:
        """Copy this rank's input to the output."""
        return self._fill(output_tensors, [input_tensors[0][self._rank]])

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """Copy this rank's part of the input to the output."""
        return self._fill([output], [input.detach().reshape(self._size, -1)[self._rank]])

    def alltoall(self, output_tensors: list[Tensor], input_tensors: list[Tensor], opts: Any = None) -> Work:
        """Copy each input to the output of the same number."""
        return self._fill(output_tensors, input_tensors)

    def all_to_all_single(
        self, output: Tensor, input: Tensor, output_splits: list[int], input_splits: list[int], opts: Any = None
    ) -> Work:
        """Copy the input to an output of the same shape, and else to each part of the output: cut, or repeated."""
        if output.shape == input.shape:
            return self._fill([output], [input])
        if len(input) == 0 and len(output) > 0:
            raise RuntimeError("inputBuffer is empty, and cannot fill the output")
        parts = output.detach().split(output_splits)
        rows = [cat([input.detach()] * -(-len(part) // len(input)))[: len(part)] for part in parts if len(part)]
        return self._fill([part for part in parts if len(part)], rows)

    def send(self, tensors: list[Tensor], dstRank: int, tag: int = 0) -> Work:
        """Do nothing."""
        return self._done(tensors)

    def recv(self, tensors: list[Tensor], srcRank: int, tag: int = 0) -> Work:
        """Leave the tensor as it is."""
        return self._done(tensors)


def _make_fake(options: _BackendOptions, engine_options: FakeProcessGroup.Options | None) -> FakeProcessGroup:
    """Return the engine of a group of backend `fake`."""
    return FakeProcessGroup._create_internal(options.group_rank, options.group_size, engine_options)


__all__ = ["FakeProcessGroup", "FakeStore"]
