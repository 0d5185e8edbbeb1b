"""The methods of process groups that run collectives.

They are those that PyTorch's group has below its functions. They always return a `Work`.
"""

from __future__ import annotations

import datetime
from sys import modules

from .. import cat, device as _device
from .._C import Work, _ProcessGroup
from . import _debug
from ._options import (
    _UNSET,
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
from ._reduce_op import RedOpType, ReduceOp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from .. import Tensor
    from .._C import _TensorGroup
    from ._trace import _TraceEngine

    #: What has the methods of `_C._ProcessGroup` that run collectives.
    _Engine = Any

#: The module that knows whether a profiler runs, if it has been imported.
_PROFILER = f"{__package__.rpartition('.')[0]}.autograd.profiler"

#: The methods of engines that run collectives.
_COLLECTIVES = {
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "all_to_all_single",
}

#: A function from an engine to one that tells `CommDebugMode` of its calls, while such a mode is active.
_observer: Callable[[Any], Any] | None = None


def _on_device(group: _Collectives, tensor: Tensor) -> _Engine:
    """Return the engine that runs collectives of a group on the device of `tensor`.

    All functions and methods that take tensors ask here. An engine for another device has the methods of
    `_C._ProcessGroup`.
    """
    kind = tensor.device.type
    if kind not in group._device_backends:
        raise RuntimeError(f"No backend type associated with device type {kind}")
    engine = _engine_of(group, kind)
    if _debug._level is _debug.DebugLevel.DETAIL:
        engine = _WaitingEngine(engine)
    if _observer is not None:
        engine = _observer(engine)
    profiler = modules.get(_PROFILER)
    if profiler is not None and profiler._running is not None:
        from ._listed import _ListedEngine

        return _ListedEngine(engine, group._device_backends[kind], profiler._running)
    return engine


class _WaitingEngine:
    """An engine whose works have ended when it returns them, so that errors are raised at the call."""

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._engine, name)
        if name not in _COLLECTIVES:
            return method

        def waiting(*arguments: Any) -> Any:
            work = method(*arguments)
            if isinstance(work, Work):
                work.wait()
            return work

        return waiting


def _engine_of(group: _Collectives, kind: str) -> _Engine:
    if group._made_engines and kind in group._made_engines:
        return group._made_engines[kind]
    if kind == "tpu":
        return group._trace_engine()
    if kind != "cpu":
        raise NotImplementedError(
            f"torch.distributed: collectives on device {kind} are not implemented yet. Move the tensor to cpu."
        )
    return group._engine


def _is_native(engine: Any) -> bool:
    """Return whether an engine is this library's, and not made of the methods of a Python object."""
    return isinstance(engine, _ProcessGroup)


def _reduction(op: ReduceOp | RedOpType, tensors: list[Tensor]) -> tuple[int, list[Tensor]]:
    """Return the number of a reduction of the engine, and the tensors to reduce."""
    kind, factor = (op, None) if isinstance(op, RedOpType) else (op.op, op.factor)
    if kind is RedOpType.PREMUL_SUM:
        if factor is None:
            raise ValueError("ReduceOp.PREMUL_SUM needs a factor. Make it with _make_nccl_premul_sum.")
        return RedOpType.SUM.value, [tensor.detach() * factor for tensor in tensors]
    if kind is RedOpType.UNUSED:
        raise ValueError("Unhandled ReduceOp")
    return kind.value, tensors


def _fail(op: str, text: str) -> NoReturn:
    raise RuntimeError(f"ProcessGroupGloo::{op}: {text}")


def _check_same(op: str, tensors: list[Tensor], like: Tensor) -> None:
    for i, tensor in enumerate(tensors):
        if tensor.dtype is not like.dtype:
            _fail(op, f"invalid tensor type at index {i} (expected {like.type()}, got {tensor.type()})")
        if tensor.shape != like.shape:
            _fail(op, f"invalid tensor size at index {i} (expected {_sizes(like)}, got {_sizes(tensor)})")


def _sizes(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def _options(given: Any, default: type[_Options], timeout: Any) -> Any:
    """Return the options of a call, from an object or from a timeout."""
    options = given if given is not None else default()
    if timeout is not None:
        options.timeout = timeout
    return options


def _call(options: _Options, result: Any) -> tuple[bool, datetime.timedelta | None, Any]:
    """Return the last argument of the engine's methods, for an asynchronous call."""
    return True, None if options.timeout == _UNSET else options.timeout, result


class _Collectives:
    """Collectives of a group: the methods that `ProcessGroup` and `ProcessGroupGloo` share."""

    _engine: Any
    #: The engine of each kind of device, if they are Python objects.
    _made_engines: dict[str, Any] = {}
    _rank: int
    _size: int
    #: Name of the backend of each kind of device.
    _device_backends: dict[str, str]
    #: The engine of device `tpu`, once it was asked for.
    _trace: _TraceEngine | None = None
    #: The global ranks of each group that was made together with this one. `None`: of this group alone.
    _partition: list[list[int]] | None = None
    #: Whether only this rank exists.
    _is_planned = False

    def _trace_engine(self) -> _TraceEngine:
        """Return the engine of device `tpu`."""
        if self._trace is None:
            from ._trace import _TraceEngine

            self._trace = _TraceEngine(self._engine, self._rank, self._size, self._partition)
        return self._trace

    def _tensor_group(self) -> Any:
        """Return the group for collectives that return new tensors, with the methods of `_C._TensorGroup`."""
        if not _is_native(self._engine):
            return self._engine.tensors()
        return self._trace_engine().group

    def _sharding_group(self) -> _TensorGroup:
        """Return the group for sharded tensors. It is this library's, also if the collectives are Python's."""
        return self._tensor_group() if _is_native(self._engine) else self._engine.native()

    def rank(self) -> int:
        """Return this rank within the group."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    def _check_root(self, op: str, root: int) -> None:
        if not 0 <= root < self._size:
            _fail(op, f"invalid root rank: {root}")

    def allreduce(
        self,
        tensors: list[Tensor] | Tensor,
        opts: AllreduceOptions | ReduceOp | RedOpType | None = None,
        timeout: datetime.timedelta | None = None,
        *,
        op: ReduceOp | RedOpType | None = None,
    ) -> Work:
        """Combine a tensor of each rank, on all ranks. Several tensors of a rank are combined as well."""
        opts = op if op is not None else opts
        if isinstance(opts, ReduceOp):
            opts = AllreduceOptions(reduceOp=opts)
        options = _options(opts, AllreduceOptions, timeout)
        tensors = tensors if isinstance(tensors, list) else [tensors]
        if not tensors:
            _fail("allreduce", "requires non-empty tensor list")
        _check_same("allreduce", tensors[1:], tensors[0])
        if len(tensors) == 1:
            return self._all_reduce(tensors, options.reduceOp, _call(options, tensors))
        return _reduce_many(self, tensors, options)

    def _all_reduce(self, tensors: list[Tensor], op: ReduceOp | RedOpType, call: Any) -> Any:
        engine = _on_device(self, tensors[0])
        code, reduced = _reduction(op, tensors)
        if reduced is not tensors:
            _copy(tensors, reduced)
        return engine.all_reduce(tensors, code, call)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: AllreduceCoalescedOptions | None = None) -> Work:
        """Combine each of several tensors of a dtype with those of the other ranks."""
        options = _options(opts, AllreduceCoalescedOptions, None)
        if not tensors:
            _fail("allreduce_coalesced", "requires non-empty tensor list")
        for tensor in tensors:
            if tensor.dtype is not tensors[0].dtype:
                _fail("allreduce_coalesced", "tensors must all have the same type")
        return self._all_reduce(tensors, options.reduceOp, _call(options, tensors))

    def broadcast(
        self,
        tensors: list[Tensor] | Tensor,
        opts: BroadcastOptions | int | None = None,
        timeout: datetime.timedelta | None = None,
        *,
        root: int | None = None,
    ) -> Work:
        """Copy the tensor of the root to all ranks. Several tensors of a rank get the same value."""
        opts = root if root is not None else opts
        if isinstance(opts, int):
            opts = BroadcastOptions(rootRank=opts)
        options = _options(opts, BroadcastOptions, timeout)
        tensors = tensors if isinstance(tensors, list) else [tensors]
        self._check_root("broadcast", options.rootRank)
        if not 0 <= options.rootTensor < len(tensors):
            _fail("broadcast", f"invalid root tensor: {options.rootTensor}")
        _check_same("broadcast", tensors[1:], tensors[0])
        first = tensors[options.rootTensor]
        engine = _on_device(self, first)
        if len(tensors) == 1:
            return engine.broadcast(tensors, options.rootRank, _call(options, tensors))
        work = engine.broadcast([first], options.rootRank, _call(options, tensors))
        work.wait()
        _copy([tensor for tensor in tensors if tensor is not first], [first] * (len(tensors) - 1))
        return work

    def reduce(
        self,
        tensors: list[Tensor] | Tensor,
        opts: ReduceOptions | int | None = None,
        op: ReduceOp | RedOpType = RedOpType.SUM,
        timeout: datetime.timedelta | None = None,
        *,
        root: int | None = None,
    ) -> Work:
        """Combine the tensors of all ranks, on the root. Those of the other ranks stay as they are."""
        opts = root if root is not None else opts
        if isinstance(opts, int):
            opts = ReduceOptions(rootRank=opts, reduceOp=op)
        options = _options(opts, ReduceOptions, timeout)
        tensors = tensors if isinstance(tensors, list) else [tensors]
        self._check_root("reduce", options.rootRank)
        if options.rootTensor != 0:
            _fail("reduce", f"invalid root tensor: {options.rootTensor}")
        if len(tensors) != 1:
            _fail("reduce", "requires a single-element tensor list")
        return self._reduce(tensors, options.rootRank, options.reduceOp, _call(options, tensors))

    def _reduce(self, tensors: list[Tensor], root: int, op: ReduceOp | RedOpType, call: Any) -> Any:
        engine = _on_device(self, tensors[0])
        code, reduced = _reduction(op, tensors)
        if reduced is not tensors and root == self._rank:
            _copy(tensors, reduced)
            reduced = tensors
        return engine.reduce(reduced, code, root, call)

    def allgather(
        self,
        output_tensors: Any,
        input_tensors: list[Tensor] | Tensor,
        opts: AllgatherOptions | None = None,
        timeout: datetime.timedelta | None = None,
    ) -> Work:
        """Gather a tensor of each rank in a list, on all ranks."""
        options = _options(opts, AllgatherOptions, timeout)
        if not isinstance(input_tensors, list):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        if not input_tensors:
            _fail("allgather", "requires non-empty input tensor list")
        if len(input_tensors) != len(output_tensors):
            _fail("allgather", "requires input/output tensor lists to have the same length")
        if len(input_tensors) == 1:
            return self._all_gather(output_tensors[0], input_tensors[0], _call(options, output_tensors[0]))
        _check_same("allgather", input_tensors[1:], input_tensors[0])
        for outputs in output_tensors:
            self._check_outputs(outputs, input_tensors)
        work = _on_device(self, input_tensors[0]).all_gather(
            output_tensors[0], input_tensors, _call(options, output_tensors)
        )
        work.wait()
        for outputs in output_tensors[1:]:
            _copy(outputs, output_tensors[0])
        return work

    def _check_outputs(self, outputs: list[Tensor], inputs: list[Tensor]) -> None:
        size = self._size * len(inputs)
        if len(outputs) != size:
            _fail("allgather", f"invalid output tensor list at index 0 (expected length {size}, got {len(outputs)})")
        _check_same("allgather", outputs, inputs[0])

    def _all_gather(self, outputs: list[Tensor], tensor: Tensor, call: Any) -> Any:
        engine = _on_device(self, tensor)
        self._check_outputs(outputs, [tensor])
        return engine.all_gather(outputs, [tensor], call)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: AllgatherOptions | None = None) -> Work:
        """Gather a tensor of each rank in one tensor, on all ranks."""
        return self._all_gather_single(output, input, _call(_options(opts, AllgatherOptions, None), [output]))

    _allgather_base = all_gather_single

    def _all_gather_single(self, output: Tensor, tensor: Tensor, call: Any) -> Any:
        engine = _on_device(self, tensor)
        if output.dtype is not tensor.dtype:
            raise RuntimeError("output tensor must have the same type as input tensor")
        return engine.all_gather([output], [tensor], call)

    def allgather_coalesced(
        self, output_lists: list[list[Tensor]], input_list: list[Tensor], opts: AllgatherOptions | None = None
    ) -> Work:
        """Gather each of several tensors. `output_lists[i]` gets those of rank `i`."""
        options = _options(opts, AllgatherOptions, None)
        if not input_list:
            _fail("allgather_coalesced", "requires non-empty input tensor list")
        if len(output_lists) != self._size:
            _fail("allgather_coalesced", "output lists should be equal to world size")
        for outputs in output_lists:
            if len(outputs) != len(input_list):
                _fail(
                    "allgather_coalesced",
                    f"invalid output size: (expected length {len(input_list)}, got {len(outputs)})",
                )
            for i, (output, tensor) in enumerate(zip(outputs, input_list, strict=True)):
                if output.dtype is not tensor.dtype:
                    kinds = f"(expected {tensor.type()}, got {output.type()})"
                    _fail("allgather_coalesced", f"invalid tensor type at index {i} {kinds}")
                if output.shape != tensor.shape:
                    text = (
                        f"invalid size of output tensor at index {i} (expected {_sizes(tensor)}, got {_sizes(output)})"
                    )
                    _fail("allgather_coalesced", text)
        engine = _on_device(self, input_list[0])
        flat = [tensor for outputs in output_lists for tensor in outputs]
        return engine.all_gather(flat, input_list, _call(options, output_lists))

    def all_gather_single_coalesced(
        self, output_lists: list[Tensor], input_list: list[Tensor], opts: AllgatherOptions | None = None
    ) -> Work:
        """Gather each of several tensors in one tensor of its own."""
        options = _options(opts, AllgatherOptions, None)
        engine = _on_device(self, input_list[0])
        works = []
        for output, tensor in zip(output_lists, input_list, strict=True):
            works.append(engine.all_gather([output], [tensor], _call(options, output_lists)))
        return works[-1]

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(
        self,
        output_tensors: Any,
        input_tensors: list[Tensor] | Tensor,
        opts: GatherOptions | int | None = None,
        timeout: datetime.timedelta | None = None,
        *,
        root: int | None = None,
    ) -> Work:
        """Gather a tensor of each rank in a list, on the root."""
        opts = root if root is not None else opts
        if isinstance(opts, int):
            opts = GatherOptions(rootRank=opts)
        options = _options(opts, GatherOptions, timeout)
        self._check_root("gather", options.rootRank)
        if not isinstance(input_tensors, list):
            output_tensors, input_tensors = [output_tensors] if output_tensors else [], [input_tensors]
        if len(input_tensors) != 1:
            _fail("gather", "requires a single-element input tensor list")
        if options.rootRank != self._rank:
            if output_tensors:
                _fail("gather", "requires empty output on non-root")
            return self._gather([], input_tensors[0], options.rootRank, _call(options, []))
        if len(output_tensors) != 1:
            _fail("gather", f"requires a single-element output list containing a list with {self._size} tensors.")
        return self._gather(output_tensors[0], input_tensors[0], options.rootRank, _call(options, output_tensors[0]))

    def _gather(self, outputs: list[Tensor], tensor: Tensor, root: int, call: Any) -> Any:
        engine = _on_device(self, tensor)
        self._check_root("gather", root)
        if root == self._rank:
            if len(outputs) != self._size:
                size = f"{len(outputs)}. Output list size should be {self._size}"
                _fail("gather", f"Incorrect output list size {size}, same as size of the process group.")
            _check_same("gather", outputs, tensor)
        return engine.gather(outputs, [tensor], root, call)

    def gather_single(self, output: Tensor, input: Tensor, opts: GatherOptions | None = None) -> Work:
        """Gather a tensor of each rank in one tensor, on the root. The other ranks pass any `output`."""
        options = _options(opts, GatherOptions, None)
        return self._gather_single(output, input, options.rootRank, _call(options, [output]))

    gather_into_tensor = gather_single

    def _gather_single(self, output: Tensor | None, tensor: Tensor, root: int, call: Any) -> Any:
        engine = _on_device(self, tensor)
        self._check_root("gather_single", root)
        return engine.gather([output] if output is not None and root == self._rank else [], [tensor], root, call)

    def scatter(
        self,
        output_tensors: list[Tensor] | Tensor,
        input_tensors: Any,
        opts: ScatterOptions | int | None = None,
        timeout: datetime.timedelta | None = None,
        *,
        root: int | None = None,
    ) -> Work:
        """Hand each rank a tensor of the root's list."""
        opts = root if root is not None else opts
        if isinstance(opts, int):
            opts = ScatterOptions(rootRank=opts)
        options = _options(opts, ScatterOptions, timeout)
        self._check_root("scatter", options.rootRank)
        if not isinstance(output_tensors, list):
            output_tensors, input_tensors = [output_tensors], [input_tensors] if input_tensors else []
        if len(output_tensors) != 1:
            _fail("scatter", "requires a single-element output tensor list")
        if options.rootRank != self._rank:
            if input_tensors:
                _fail("scatter", "requires empty input on non-root")
            return self._scatter(output_tensors[0], [], options.rootRank, _call(options, output_tensors))
        if len(input_tensors) != 1:
            _fail("scatter", "requires a single-element input list")
        return self._scatter(output_tensors[0], input_tensors[0], options.rootRank, _call(options, output_tensors))

    def _scatter(self, output: Tensor, tensors: list[Tensor], root: int, call: Any) -> Any:
        engine = _on_device(self, output)
        self._check_root("scatter", root)
        if root == self._rank:
            if len(tensors) != self._size:
                size = f"{len(tensors)}. Input list size should be {self._size}"
                _fail("scatter", f"Incorrect input list size {size}, same as size of the process group.")
            _check_same("scatter", tensors, output)
        return engine.scatter([output], tensors, root, call)

    def reduce_scatter(
        self,
        output_tensors: list[Tensor] | Tensor,
        input_tensors: Any,
        opts: ReduceScatterOptions | ReduceOp | RedOpType | None = None,
        timeout: datetime.timedelta | None = None,
        *,
        op: ReduceOp | RedOpType | None = None,
    ) -> Work:
        """Combine lists of tensors of all ranks, and hand each rank a tensor of the result."""
        opts = op if op is not None else opts
        if isinstance(opts, ReduceOp):
            opts = ReduceScatterOptions(reduceOp=opts)
        options = _options(opts, ReduceScatterOptions, timeout)
        if not isinstance(output_tensors, list):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        if len(output_tensors) != len(input_tensors):
            _fail("reduce_scatter", "requires input/output tensor lists to have the same length")
        if len(output_tensors) != 1:
            _fail("reduce_scatter", "requires a single-element tensor list")
        call = _call(options, output_tensors)
        return self._reduce_scatter(output_tensors[0], input_tensors[0], options.reduceOp, call)

    def _reduce_scatter(self, output: Tensor, tensors: list[Tensor], op: ReduceOp | RedOpType, call: Any) -> Any:
        engine = _on_device(self, output)
        if len(tensors) != self._size:
            raise RuntimeError("invalid input tensor list size, must be world size")
        if any(tensor.shape != output.shape for tensor in tensors) and tensors[self._rank].shape == output.shape:
            return self._reduce_scatter_uneven(output, tensors, op, call)
        _check_same("reduce_scatter", tensors, output)
        code, reduced = _reduction(op, tensors)
        return engine.reduce_scatter([output], reduced, code, call)

    def _reduce_scatter_uneven(self, output: Tensor, tensors: list[Tensor], op: ReduceOp | RedOpType, call: Any) -> Any:
        """Combine lists of tensors of several shapes. They travel as one row."""
        row = cat([tensor.detach().reshape(-1) for tensor in tensors])
        work = self._all_reduce([row], op, (True, *call[1:]))
        work.wait()
        start = sum(tensor.numel() for tensor in tensors[: self._rank])
        _copy([output], [row[start : start + output.numel()].view(output.shape)])
        return work if call[0] else None

    def reduce_scatter_single(
        self, outputTensor: Tensor, inputTensor: Tensor, opts: ReduceScatterOptions | None = None
    ) -> Work:
        """Combine a tensor of all ranks, and hand each rank a part of the result."""
        options = _options(opts, ReduceScatterOptions, None)
        return self._reduce_scatter_single(outputTensor, inputTensor, options.reduceOp, _call(options, [outputTensor]))

    _reduce_scatter_base = reduce_scatter_single

    def _reduce_scatter_single(self, output: Tensor, tensor: Tensor, op: ReduceOp | RedOpType, call: Any) -> Any:
        engine = _on_device(self, output)
        if output.dtype is not tensor.dtype:
            raise RuntimeError("input tensor must be the same type as the output tensor.")
        # This library's engine checks the sizes, too.
        if not _is_native(self._engine) and tensor.numel() != output.numel() * self._size:
            raise RuntimeError("input tensor must be the same size as output size times world size")
        code, reduced = _reduction(op, [tensor])
        return engine.reduce_scatter([output], reduced, code, call)

    def reduce_scatter_single_coalesced(
        self, outputTensors: list[Tensor], inputTensors: list[Tensor], opts: ReduceScatterOptions | None = None
    ) -> Work:
        """Combine each of several tensors of all ranks, and hand each rank a part of each result."""
        options = _options(opts, ReduceScatterOptions, None)
        works = []
        for output, tensor in zip(outputTensors, inputTensors, strict=True):
            call = _call(options, outputTensors)
            works.append(self._reduce_scatter_single(output, tensor, options.reduceOp, call))
        return works[-1]

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(
        self,
        output_tensor: list[Tensor],
        input_tensor: list[Tensor],
        opts: AllToAllOptions | None = None,
        timeout: datetime.timedelta | None = None,
    ) -> Work:
        """Hand each rank a tensor of each rank's list."""
        options = _options(opts, AllToAllOptions, timeout)
        return self._all_to_all(output_tensor, input_tensor, _call(options, output_tensor))

    def _all_to_all(self, outputs: list[Tensor], inputs: list[Tensor], call: Any) -> Any:
        for name, tensors in (("input", inputs), ("output", outputs)):
            if len(tensors) != self._size:
                _fail("alltoall", f"{name} tensor list size {len(tensors)} does not match world size {self._size}")
        return _on_device(self, inputs[0]).all_to_all(outputs, inputs, call)

    def all_to_all_single(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        output_split_sizes: list[int] | None = None,
        input_split_sizes: list[int] | None = None,
        opts: AllToAllOptions | None = None,
        timeout: datetime.timedelta | None = None,
    ) -> Work:
        """Hand each rank rows of each rank's tensor."""
        options = _options(opts, AllToAllOptions, timeout)
        call = _call(options, [output_tensor])
        return self._all_to_all_single(output_tensor, input_tensor, output_split_sizes, input_split_sizes, call)

    alltoall_base = all_to_all_single

    def _all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: list[int] | None,
        input_split_sizes: list[int] | None,
        call: Any,
    ) -> Any:
        engine = _on_device(self, input)
        sent, received = self._splits(input, input_split_sizes), self._splits(output, output_split_sizes)
        return engine.all_to_all_single([output], [input], sent, received, call)

    def _splits(self, tensor: Tensor, sizes: list[int] | None) -> list[int]:
        rows = tensor.shape[0] if tensor.dim() else 0
        if not sizes:
            if rows % self._size:
                raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
            return [rows // self._size] * self._size
        if len(sizes) != self._size:
            raise RuntimeError("Number of tensor splits not equal to group size")
        if sum(sizes) != rows:
            raise RuntimeError("Split sizes doesn't match total dim 0 size")
        return list(sizes)

    def barrier(self, opts: BarrierOptions | None = None, timeout: datetime.timedelta | None = None) -> Work:
        """Wait until all ranks are here."""
        return self._engine.barrier(_call(_options(opts, BarrierOptions, timeout), []))

    def monitored_barrier(self, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Wait until all ranks have called this. The error of a timeout names the ranks that have not."""
        self._engine.monitored_barrier(self._engine.timeout if timeout is None else timeout, wait_all_ranks)

    def send(self, tensors: list[Tensor], dstRank: int, tag: int = 0) -> Work:
        """Begin to send the only tensor of a list."""
        self._check_message("send", tensors, tag)
        return _on_device(self, tensors[0]).send(tensors, dstRank, tag, True)

    def recv(self, tensors: list[Tensor], srcRank: int, tag: int = 0) -> Work:
        """Begin to receive the only tensor of a list."""
        self._check_message("recv", tensors, tag)
        return _on_device(self, tensors[0]).irecv(tensors, srcRank, tag, tensors)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Work:
        """Begin to receive the only tensor of a list, from any rank."""
        self._check_message("recv_anysource", tensors, tag)
        return _on_device(self, tensors[0]).irecv(tensors, None, tag, tensors)

    def _check_message(self, op: str, tensors: list[Tensor], tag: int) -> None:
        if len(tensors) != 1:
            _fail(op, "requires a single tensor")
        if tag < 0:
            raise RuntimeError("Tag must be nonnegative")

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Set the limit of later collectives."""
        self._engine.set_timeout(timeout)

    _set_default_timeout = set_timeout

    def abort(self) -> None:
        """Break the group. Calls that wait raise `DistBackendError`, on all ranks."""
        self._engine.abort("abort() was called")

    def shutdown(self) -> None:
        """Leave the group. Later calls raise `ValueError`. Collectives that were recorded run first."""
        if self._trace is not None:
            self._trace.close()
        self._engine.close()

    def _get_sequence_number_for_group(self) -> int:
        """Return the number of collectives called so far."""
        return self._engine.sequence()

    def _start_coalescing(self, device: _device | None = None) -> None:
        """Do nothing: collectives run in the order of their calls."""

    def _end_coalescing(self, device: _device | None = None) -> None:
        """Do nothing: collectives run in the order of their calls."""


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    # As in PyTorch, collectives do not count as writes in place.
    for target, source in zip(targets, sources, strict=True):
        target.data.copy_(source.detach())


def _reduce_many(group: _Collectives, tensors: list[Tensor], options: AllreduceOptions) -> Work:
    """Combine several tensors of each rank, and give all of them the result."""
    combined = tensors[0].detach().clone()
    alone = {
        RedOpType.SUM: lambda a, b: a.add_(b),
        RedOpType.PRODUCT: lambda a, b: a.mul_(b),
        RedOpType.MIN: lambda a, b: a.copy_(a.minimum(b)),
        RedOpType.MAX: lambda a, b: a.copy_(a.maximum(b)),
    }
    kind = options.reduceOp.op
    if kind not in alone:
        raise NotImplementedError(f"allreduce: {kind} of several tensors of a rank is not implemented")
    for tensor in tensors[1:]:
        alone[kind](combined, tensor.detach())
    work = group._all_reduce([combined], options.reduceOp, _call(options, tensors))
    work.wait()
    _copy(tensors, [combined] * len(tensors))
    return work
