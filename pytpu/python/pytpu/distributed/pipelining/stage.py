"""A stage of a pipeline: a part of a model on one rank, its inputs, its outputs and their gradients."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import pytpu as torch

from ...autograd.graph import GradientEdge, get_gradient_edge
from ...nn import Module
from ...nn.parallel import DistributedDataParallel
from ...utils.hooks import RemovableHandle
from ..fsdp import FSDPModule
from ._backward import stage_backward, stage_backward_input, stage_backward_weight
from ._transport import _transport_of
from ._utils import (
    PipeInfo,
    PipeliningMetadataError,
    _describe,
    _grad_meta,
    _TensorMeta,
    flatten_args,
    generate_stage_to_rank_mapping,
    validate_and_normalize_to_tuple,
    validate_tensors_metadata,
)

__all__ = ["PipelineStage", "PipelineStageInfo", "build_stage"]


@dataclass(frozen=True, kw_only=True)
class PipelineStageInfo:
    """The call of a stage's forward that a forward context surrounds.

    Args:
        stage_index: Index of the stage.
        microbatch_index: Index of the microbatch.
        is_metadata_inference: Whether the call only finds out the shapes of the outputs.
    """

    stage_index: int
    microbatch_index: int
    is_metadata_inference: bool = False


@dataclass
class _Forwarded:
    """What a forward leaves for the sending of its outputs and for its backward."""

    outputs: tuple[Any, ...]
    inputs: list[Any]
    edges: dict[int, GradientEdge] = field(default_factory=dict)  # By output, of those that have been released.


@dataclass
class _SplitBackward:
    """What the first half of a backward leaves for the second half."""

    outputs: Any
    output_grads: tuple[torch.Tensor | None, ...] | None
    inputs: list[Any]
    groups: list[dict[str, Any]] | None  # ``None`` if nothing has been computed yet.


def _as_tuple(output: Any) -> tuple[Any, ...]:
    """Return the outputs of a stage as a tuple."""
    return tuple(output) if type(output) in (tuple, list) else (output,)


def _with_gradient(meta: _TensorMeta) -> _TensorMeta:
    """Describe an example as it is exchanged. Examples seldom say that they require gradients, but activations do."""
    return replace(meta, requires_grad=meta.dtype.is_floating_point or meta.dtype.is_complex)


def _brief(value: Any) -> str:
    """Describe arguments in an error: tensors by shape and dtype."""
    if isinstance(value, torch.Tensor):
        return f"Tensor({tuple(value.shape)}, dtype={value.dtype}, grad={value.requires_grad})"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_brief, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_brief(part)}' for name, part in value.items())}}}"
    return repr(value)


class _PipelineStageBase:
    """The part of stages that does not depend on how the shapes of their tensors become known.

    Args:
        submodule: Module that the stage runs.
        stage_index: Index of the stage.
        num_stages: Number of stages of the pipeline.
        device: Device of the stage.
        group: Process group of the pipeline. The default is the default group.
        dw_builder: Function that returns the function for the gradients of the weights. Schedules that split the
            backward call the former after the gradients of the inputs, and the latter later. The default splits the
            backward by its graph.

    Raises:
        ValueError: If `stage_index` is too large.
        RuntimeError: If the group has more ranks than there are stages.
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: torch.device,
        group: Any = None,
        dw_builder: Callable[[], Callable[..., None]] | None = None,
    ) -> None:
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.submod = submodule
        self.stage_index = stage_index
        self.num_stages = num_stages
        self.device = torch.device(device)
        self.group = group
        self.dw_builder = dw_builder
        self._transport = _transport_of(group)
        self.group_rank = self._transport.rank
        self.group_size = self._transport.size
        if self.group_size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}"
            )
        # A schedule replaces it if it places stages in another way.
        self.stage_index_to_group_rank = generate_stage_to_rank_mapping(self.group_size, num_stages)
        self.has_backward = False
        self.log_prefix = f"[Stage {stage_index}]"
        self.chunks: int | None = None
        self.output_chunks: list[Any] = []
        self.bwd_cache: dict[int, tuple[torch.Tensor | None, ...]] = {}
        self.backward_state: dict[int, _SplitBackward] = {}
        self.dw_runner: dict[int, Callable[..., None]] = {}
        self._input_metas: tuple[_TensorMeta, ...] | None = None
        self._output_metas: tuple[_TensorMeta, ...] | None = None
        self._forwarded: dict[int, _Forwarded] = {}
        self._received: dict[int, list[torch.Tensor]] = {}
        self._received_grads: dict[int, list[torch.Tensor | None]] = {}
        self._forward_contexts: OrderedDict[int, Callable[[PipelineStageInfo], AbstractContextManager]] = OrderedDict()

    @property
    def is_first(self) -> bool:
        """Whether this is the first stage of the pipeline."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether this is the last stage of the pipeline."""
        return self.stage_index == self.num_stages - 1

    def register_forward_context(
        self, context_factory: Callable[[PipelineStageInfo], AbstractContextManager[None]]
    ) -> RemovableHandle:
        """Run each forward of the stage inside a context manager.

        Args:
            context_factory: Function of a `PipelineStageInfo` that returns a new context manager.

        Returns:
            Handle that ends this.

        Raises:
            RuntimeError: If there is such a context already.
        """
        if self._forward_contexts:
            raise RuntimeError(
                "A pipeline forward context is already registered; remove its handle before registering another"
            )
        handle = RemovableHandle(self._forward_contexts)
        self._forward_contexts[handle.id] = context_factory
        return handle

    def _call(self, microbatch: int, args: tuple[Any, ...], kwargs: dict[str, Any], inference: bool = False) -> Any:
        """Run the module inside its context."""
        context: AbstractContextManager = nullcontext()
        for factory in self._forward_contexts.values():
            context = factory(
                PipelineStageInfo(
                    stage_index=self.stage_index, microbatch_index=microbatch, is_metadata_inference=inference
                )
            )
        completed = False
        with context:
            output = self.submod(*args, **kwargs)
            completed = True
        if not completed:
            raise RuntimeError(
                "A pipeline forward context suppressed an exception from the stage module; forward contexts must not "
                "suppress exceptions"
            )
        return output

    # Messages.

    def _rank_of(self, stage: int) -> int:
        return self.stage_index_to_group_rank[stage]

    def _check_metas(self, metas: tuple[Any, ...] | None, what: str) -> tuple[Any, ...]:
        if metas is None:
            raise PipeliningMetadataError(f"Stage {self.stage_index}: {what} metadata is not known before a first step")
        return metas

    def _send_ops(self, tensors: list[tuple[torch.Tensor, _TensorMeta]], stage: int, what: str) -> list[Any]:
        """Describe the sending of tensors to another stage. Their shapes must be those that were agreed on."""
        ops = []
        for index, (tensor, meta) in enumerate(tensors):
            if tensor.shape != meta.shape or tensor.dtype != meta.dtype:
                raise PipeliningMetadataError(
                    f"{self.log_prefix} {what}, tensor {index}: shape {tuple(tensor.shape)} and dtype {tensor.dtype}, "
                    f"but stage {stage} expects shape {tuple(meta.shape)} and dtype {meta.dtype}. All microbatches "
                    "must have the same shapes."
                )
            ops.append(self._transport.send_op(tensor.detach().contiguous(), self._rank_of(stage)))
        return ops

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[Any]:
        """Return the operations that receive the inputs of microbatch `fwd_chunk_id`."""
        if self.is_first:
            return []
        self._expect_nothing(self._received, fwd_chunk_id, "input")
        buffers = [meta.empty(self.device) for meta in self._check_metas(self._input_metas, "input")]
        self._received[fwd_chunk_id] = buffers
        source = self._rank_of(self.stage_index - 1)
        return [self._transport.recv_op(buffer, source) for buffer in buffers]

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[Any]:
        """Return the operations that send the outputs of microbatch `fwd_chunk_id`."""
        if self.is_last:
            return []
        metas = self._check_metas(self._output_metas, "output")
        outputs = self._forwarded[fwd_chunk_id].outputs
        what = f"output of microbatch {fwd_chunk_id}"
        if len(outputs) != len(metas):
            raise PipeliningMetadataError(
                f"{self.log_prefix} {what}: expected {len(metas)} tensors, got {len(outputs)}"
            )
        return self._send_ops(list(zip(outputs, metas)), self.stage_index + 1, what)

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[Any]:
        """Return the operations that receive the gradients of the outputs of microbatch `bwd_chunk_id`."""
        if not self.has_backward or self.is_last:
            return []
        self._expect_nothing(self._received_grads, bwd_chunk_id, "gradient")
        metas = map(_grad_meta, self._check_metas(self._output_metas, "output"))
        buffers = [None if meta is None else meta.empty(self.device) for meta in metas]
        self._received_grads[bwd_chunk_id] = buffers
        source = self._rank_of(self.stage_index + 1)
        return [self._transport.recv_op(buffer, source) for buffer in buffers if buffer is not None]

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[Any]:
        """Return the operations that send the gradients of the inputs of microbatch `bwd_chunk_id`."""
        if not self.has_backward or self.is_first:
            return []
        self._check_chunk_id(bwd_chunk_id)
        pairs = []
        for index, (grad, meta) in enumerate(
            zip(self.bwd_cache.pop(bwd_chunk_id), map(_grad_meta, self._check_metas(self._input_metas, "input")))
        ):
            if meta is not None:
                # The other side waits for a message, so an input that is not used gets a gradient of zeros.
                pairs.append((meta.empty(self.device).zero_() if grad is None else grad, meta))
            elif grad is not None:
                raise PipeliningMetadataError(
                    f"{self.log_prefix} for chunk {bwd_chunk_id} has a gradient of input {index}, but stage "
                    f"{self.stage_index - 1} expects none"
                )
        return self._send_ops(pairs, self.stage_index - 1, f"gradient of microbatch {bwd_chunk_id}")

    def _expect_nothing(self, received: dict[int, Any], microbatch: int, what: str) -> None:
        if microbatch in received:
            raise PipeliningMetadataError(
                f"{self.log_prefix} the {what} of microbatch {microbatch} is received a second time before it was used"
            )

    def release_fwd_send_outputs(self, fwd_chunk_id: int) -> None:
        """Forget outputs that have been sent. The backward starts from their edges of the graph."""
        entry = self._forwarded.get(fwd_chunk_id)
        if entry is None or self.is_last or self.dw_builder is not None:
            return
        if isinstance(self.submod, DistributedDataParallel):
            return
        outputs: list[Any] = []
        for index, output in enumerate(entry.outputs):
            if isinstance(output, torch.Tensor):
                if self.has_backward and output.requires_grad:
                    entry.edges[index] = get_gradient_edge(output)
                output = None
            outputs.append(output)
        entry.outputs = tuple(outputs)

    def set_local_fwd_input(self, prev_stage_outputs: Any, mb_index: int) -> None:
        """Take the inputs of microbatch `mb_index` from the stage before, which is on the same rank."""
        self._expect_nothing(self._received, mb_index, "input")
        outputs = _as_tuple(prev_stage_outputs)
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise AssertionError(f"expected tensor values as outputs from prev stage, got {type(output)}")
        self._received[mb_index] = [output.detach() for output in outputs]

    def set_local_bwd_input(self, next_stage_bwd_outputs: tuple[torch.Tensor | None, ...], mb_index: int) -> None:
        """Take the gradients of the outputs of microbatch `mb_index` from the stage after, on the same rank."""
        if not isinstance(next_stage_bwd_outputs, tuple):
            raise AssertionError(f"Expected tuple, got {type(next_stage_bwd_outputs)}")
        if not self.has_backward:
            raise AssertionError("can't set bwd input if this stage doesn't have backward")
        if self.is_last:
            raise AssertionError("can't set bwd input if this stage is last")
        self._expect_nothing(self._received_grads, mb_index, "gradient")
        self._received_grads[mb_index] = [
            torch.zeros(meta.shape, dtype=meta.dtype, device=self.device)
            if grad is None and meta.requires_grad
            else grad
            for grad, meta in zip(next_stage_bwd_outputs, self._check_metas(self._output_metas, "output"))
        ]

    def get_local_bwd_output(self, mb_index: int) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of the inputs of microbatch `mb_index`, for the stage before on the same rank."""
        if not self.has_backward:
            raise AssertionError("can't steal_bwd_input if this stage doesn't have backward")
        if self.is_first:
            raise AssertionError("can't get bwd output if this stage is first")
        self._check_chunk_id(mb_index)
        return self.bwd_cache.pop(mb_index)

    def clear_runtime_states(self) -> None:
        """Forget what an earlier step has left."""
        self.output_chunks.clear()
        self.bwd_cache.clear()
        self.backward_state.clear()
        self.dw_runner.clear()
        self._forwarded.clear()
        self._received.clear()
        self._received_grads.clear()

    def _check_chunk_id(self, chunk_id: int) -> None:
        if self.chunks is None:
            raise RuntimeError("Attempted to access chunk_id before chunks have been configured.")
        if chunk_id >= self.chunks:
            raise RuntimeError(f"Chunk id {chunk_id} is out of range [0, {self.chunks})")

    # Computation.

    def forward_one_chunk(
        self,
        fwd_chunk_id: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        save_forward_output: bool = True,
    ) -> Any:
        """Run the forward of a microbatch.

        Args:
            fwd_chunk_id: Index of the microbatch.
            args: Positional arguments of the first stage. Other stages use what they received.
            kwargs: Keyword arguments of this stage.
            save_forward_output: Whether the last stage keeps the output for the result of the step.

        Returns:
            What the module returned.

        Raises:
            RuntimeError: If the module raised an error.
        """
        kwargs = kwargs or {}
        if not self.is_first:
            args = self._activations(fwd_chunk_id)
        try:
            with self._without_sync():
                output = self._call(fwd_chunk_id, args, kwargs)
        except Exception as error:
            raise RuntimeError(
                f"{self.log_prefix} failed to run forward of microbatch {fwd_chunk_id}: {error}\n"
                f"args: {_brief(args)}\nkwargs: {_brief(kwargs)}"
            ) from error
        if self.is_last and save_forward_output:
            self.output_chunks.append(output)
        self._forwarded[fwd_chunk_id] = _Forwarded(_as_tuple(output), flatten_args(args) + flatten_args(kwargs))
        return output

    def _activations(self, microbatch: int) -> tuple[torch.Tensor, ...]:
        """Return what was received as leaves of a new graph."""
        if microbatch not in self._received:
            raise PipeliningMetadataError(f"{self.log_prefix} has not received the input of microbatch {microbatch}")
        grad = self.has_backward and torch.is_grad_enabled()
        metas = self._check_metas(self._input_metas, "input")
        return tuple(
            tensor.requires_grad_(meta.requires_grad and grad)
            for tensor, meta in zip(self._received.pop(microbatch), metas)
        )

    def _without_sync(self, sync: bool = False) -> AbstractContextManager:
        """Return a context in which data parallelism keeps gradients local, unless `sync`."""
        if isinstance(self.submod, DistributedDataParallel) and not sync:
            return self.submod.no_sync()
        return nullcontext()

    def _backward(self, run: Callable[[], Any], bwd_chunk_id: int, last_backward: bool) -> Any:
        if isinstance(self.submod, FSDPModule):
            # Parameters stay whole, and gradients are summed up, until the last microbatch.
            self.submod.set_is_last_backward(last_backward)
            self.submod.set_reshard_after_backward(last_backward)
            self.submod.set_requires_gradient_sync(last_backward)
        try:
            with self._without_sync(last_backward):
                return run()
        except PipeliningMetadataError:
            raise
        except Exception as error:
            raise RuntimeError(
                f"{self.log_prefix} failed to run backward of microbatch {bwd_chunk_id}: {error}"
            ) from error

    def backward_one_chunk(
        self,
        bwd_chunk_id: int,
        loss: torch.Tensor | None = None,
        full_backward: bool = True,
        last_backward: bool = False,
    ) -> None:
        """Run the backward of a microbatch.

        Args:
            bwd_chunk_id: Index of the microbatch.
            loss: Loss of the microbatch, for the last stage.
            full_backward: ``False`` for the gradients of the inputs only. `backward_weight_one_chunk` completes them.
            last_backward: Whether this is the last backward of the stage in a step, after which data parallelism
                reduces the gradients.
        """
        if not self.has_backward:
            return
        self._check_chunk_id(bwd_chunk_id)
        if isinstance(self.submod, FSDPModule) and not full_backward:
            raise NotImplementedError(
                f"{self.log_prefix} FSDP reduces gradients in a full backward only. Use a schedule that does not split "
                "backwards."
            )
        entry = self._forwarded.pop(bwd_chunk_id)
        outputs: Any = tuple(entry.edges.get(index, output) for index, output in enumerate(entry.outputs))
        grads = None if self.is_last else self._output_grads(bwd_chunk_id)
        roots = (loss,) if self.is_last else outputs
        found: tuple[torch.Tensor | None, ...] = ()

        def full():
            return stage_backward(loss if self.is_last else outputs, grads, entry.inputs)

        if full_backward or self.dw_builder is not None:
            found = self._backward(full, bwd_chunk_id, last_backward)
            if self.dw_builder is not None:
                self.dw_runner[bwd_chunk_id] = self.dw_builder()
                if full_backward:
                    self.dw_runner.pop(bwd_chunk_id)()
        else:
            groups = None
            # The first stage sends no gradients, so its backward is not split. It runs as a whole with the weights.
            if not self.is_first:
                found, groups = self._backward(
                    lambda: stage_backward_input(roots, grads, entry.inputs, self.submod.parameters()),
                    bwd_chunk_id,
                    False,
                )
                roots = ()
            self.backward_state[bwd_chunk_id] = _SplitBackward(roots, grads, entry.inputs, groups)
        if not self.is_first:
            # Keyword arguments are this stage's own, so their gradients are not sent.
            self.bwd_cache[bwd_chunk_id] = found[: len(self._check_metas(self._input_metas, "input"))]
        if self.is_last and not self.is_first:
            for output in entry.outputs:
                if isinstance(output, torch.Tensor) and not output._is_view():
                    output.detach_()  # The output is kept for the caller. Its graph is not needed any more.

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """Compute the gradients of the weights for a microbatch whose backward was split.

        Args:
            bwd_chunk_id: Index of the microbatch.
            last_backward: Whether this is the last backward of the stage in a step.
        """
        if not self.has_backward:
            return
        if bwd_chunk_id in self.dw_runner:
            self.dw_runner.pop(bwd_chunk_id)()
            return
        if bwd_chunk_id not in self.backward_state:
            raise AssertionError(
                f"{self.log_prefix} Attempted to run backward_weight_one_chunk for chunk {bwd_chunk_id} without first "
                "calling `backward_one_chunk(full_backward=False)`"
            )
        state = self.backward_state.pop(bwd_chunk_id)

        def run():
            if state.groups is not None:
                return stage_backward_weight(self.submod.parameters(), state.groups)
            outputs = state.outputs[0] if self.is_last else state.outputs
            return stage_backward(outputs, state.output_grads, state.inputs)

        self._backward(run, bwd_chunk_id, last_backward)

    def _output_grads(self, microbatch: int) -> tuple[torch.Tensor | None, ...]:
        if microbatch not in self._received_grads:
            raise PipeliningMetadataError(f"{self.log_prefix} has not received the gradient of microbatch {microbatch}")
        return tuple(self._received_grads.pop(microbatch))

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divide the gradients of the stage.

        Args:
            grad_scale_factor: Divisor: the number of microbatches if the loss of a microbatch is a mean, 1 if a sum.
        """
        if grad_scale_factor != 1:
            for parameter in self.submod.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(grad_scale_factor)

    def perform_reduce_grad(self, grad_scale_factor: int) -> None:
        """Finish the gradients of the stage after its last backward. The argument is that of `scale_grads`."""
        self.scale_grads(grad_scale_factor)

    # Preparation, by the kind of stage.

    def _supports_static(self) -> bool:
        """Whether the shapes of this stage's inputs and outputs are known without running it."""
        raise NotImplementedError

    def _prepare_forward_infra(
        self,
        num_microbatches: int,
        args: Any,
        kwargs: dict[str, Any] | None = None,
        has_backward: bool = False,
        static: bool = False,
    ) -> tuple[_TensorMeta, ...] | None:
        """Find out the shapes of inputs and outputs. Return the latter if the next stage is on the same rank."""
        raise NotImplementedError


class PipelineStage(_PipelineStageBase):
    """A module as one stage of a pipeline, on one rank.

    The inputs of the first stage are the arguments of ``step``. Another stage gets the outputs of the stage before as
    positional arguments. Outputs are a tensor or a tuple of tensors; those of the last stage may be anything.

    If `input_args` and `output_args` are given on all ranks, they say the shapes of what is exchanged. Otherwise the
    first step runs each stage once more with the first microbatch, from the first stage to the last one, and stages
    tell each other the shapes. Buffers and random generators of the stage are restored afterwards.

    Args:
        submodule: Module that the stage runs. It should be on `device`.
        stage_index: Index of the stage.
        num_stages: Number of stages of the pipeline.
        device: Device of the stage.
        input_args: Example inputs of a microbatch.
        output_args: Example outputs of a microbatch.
        output_grads: Not needed: gradients have the shapes of the outputs.
        input_grads: Not needed: gradients have the shapes of the inputs.
        group: Process group of the pipeline. The default is the default group.
        dw_builder: Function that returns the function for the gradients of the weights. Schedules that split the
            backward call the former after the gradients of the inputs, and the latter later. The default splits the
            backward by its graph.
        get_mesh: Not used.

    Raises:
        PipeliningMetadataError: If an example is no tensor.
        ValueError: If `stage_index` is too large.
        RuntimeError: If the group has more ranks than there are stages.
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: torch.device,
        input_args: torch.Tensor | tuple[torch.Tensor, ...] | None = None,
        output_args: torch.Tensor | tuple[torch.Tensor, ...] | None = None,
        output_grads: torch.Tensor | tuple[torch.Tensor | None, ...] | None = None,
        input_grads: torch.Tensor | tuple[torch.Tensor | None, ...] | None = None,
        group: Any = None,
        dw_builder: Callable[[], Callable[..., None]] | None = None,
        get_mesh: Any = None,
    ) -> None:
        super().__init__(submodule, stage_index, num_stages, device, group, dw_builder)
        inputs = validate_and_normalize_to_tuple(input_args)
        outputs = validate_and_normalize_to_tuple(output_args)
        self._user_inputs = None if inputs is None else _describe(inputs)
        self._user_outputs = None if outputs is None else _describe(outputs)
        for grads in (output_grads, input_grads):
            validate_and_normalize_to_tuple(grads, allow_none=True)

    def _supports_static(self) -> bool:
        return self._user_inputs is not None and self._user_outputs is not None

    def _prepare_forward_infra(
        self,
        num_microbatches: int,
        args: Any,
        kwargs: dict[str, Any] | None = None,
        has_backward: bool = False,
        static: bool = False,
    ) -> tuple[_TensorMeta, ...] | None:
        self.chunks = num_microbatches
        if static:
            self._input_metas = tuple(map(_with_gradient, self._user_inputs or ()))
            self._output_metas = tuple(map(_with_gradient, self._user_outputs or ()))
            return self._output_metas
        same_rank_before = not self.is_first and self._rank_of(self.stage_index - 1) == self.group_rank
        if self.is_first:
            values = validate_and_normalize_to_tuple(args)
            if values is None:
                raise PipeliningMetadataError(f"Stage {self.stage_index}: First stage requires real tensors, got None.")
            self._input_metas = _describe(values)
        else:
            metas = args if same_rank_before else self._transport.recv_object(self._rank_of(self.stage_index - 1))
            self._input_metas = metas
            values = tuple(meta.to_tensor(self.device) for meta in metas)
        outputs = self._infer(values, kwargs or {}, has_backward)
        self._output_metas = _describe(outputs)
        for expected, found, what in (
            (self._user_inputs, self._input_metas, "input"),
            (self._user_outputs, self._output_metas, "output"),
        ):
            if expected is not None and found is not None:
                validate_tensors_metadata(
                    f"Stage {self.stage_index} {what}", expected, found, raise_on_mismatch=False, warn_on_mismatch=True
                )
        if not self.is_last and self._rank_of(self.stage_index + 1) != self.group_rank:
            self._transport.send_object(self._output_metas, self._rank_of(self.stage_index + 1))
        return self._output_metas

    def _infer(self, values: tuple[torch.Tensor, ...], kwargs: dict[str, Any], has_backward: bool) -> tuple[Any, ...]:
        """Run the module once and restore its buffers. Return its outputs."""
        values, _ = flatten_args(values, detach=True)
        kwargs, _ = flatten_args(kwargs, detach=True)
        saved = [(buffer, buffer.detach().clone()) for buffer in self.submod.buffers()]
        try:
            with torch.enable_grad() if has_backward else torch.no_grad():
                output = self._call(0, values, kwargs, inference=True)
        finally:
            with torch.no_grad():
                for buffer, value in saved:
                    buffer.copy_(value)
            for module in self.submod.modules():
                if isinstance(module, FSDPModule):
                    module.reshard()
        if self.is_last:
            # Nothing is sent from here, so outputs may be anything.
            return tuple(value for value in flatten_args(output) if isinstance(value, torch.Tensor))
        return validate_and_normalize_to_tuple(output) or ()


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: PipeInfo, device: torch.device, group: Any = None
) -> PipelineStage:
    """Make a stage of a part of a `Pipe`.

    Args:
        stage_module: Module of the stage.
        stage_index: Index of the stage.
        pipe_info: What `Pipe.info` returned.
        device: Device of the stage. The module is moved there.
        group: Process group of the pipeline. The default is the default group.

    Returns:
        The stage.
    """
    return PipelineStage(stage_module.to(device), stage_index, pipe_info.num_stages, device, group=group)
