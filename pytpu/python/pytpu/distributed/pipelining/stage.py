"""A stage of a pipeline: a part of a model on one rank, its inputs, its outputs and their gradients."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import pytpu as torch

from ...autograd.graph import GradientEdge, get_gradient_edge
from ...nn import Module
from ...nn.parallel import DistributedDataParallel
from ...utils._pytree import tree_flatten, tree_map
from ...utils.hooks import RemovableHandle
from ..fsdp import FSDPModule
from ._backward import stage_backward, stage_backward_input, stage_backward_weight
from ._shapes import PipeliningMetadataError, _as_tensors, _differences, _Meta, _metas, _ranks_of_stages
from ._transport import _transport_of

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

    def release(self, has_backward: bool) -> None:
        """Forget output tensors. The backward starts from their edges of the graph."""
        for index, output in enumerate(self.outputs):
            if has_backward and isinstance(output, torch.Tensor) and output.requires_grad:
                self.edges[index] = get_gradient_edge(output)
        self.outputs = (None,) * len(self.outputs)

    def roots(self) -> tuple[Any, ...]:
        """Return where the backward starts: outputs, or the edges for them."""
        return tuple(self.edges.get(index, output) for index, output in enumerate(self.outputs))


def _as_tuple(output: Any) -> tuple[Any, ...]:
    return tuple(output) if type(output) in (tuple, list) else (output,)


def _brief(value: Any) -> str:
    """Describe arguments in an error: tensors by shape and dtype."""
    parts, _ = tree_flatten(value)
    said = (f"{_metas([part])[0]}" if isinstance(part, torch.Tensor) else repr(part) for part in parts)
    return "; ".join(said) or "nothing"


class PipelineStage:
    """A module as one stage of a pipeline, on one rank.

    The inputs of the first stage are the arguments of `step`. Another stage gets the outputs of the stage before as
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
        output_grads: Not used: gradients have the shapes of the outputs.
        input_grads: Not used: gradients have the shapes of the inputs.
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
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self._transport = _transport_of(group)
        if self._transport.size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self._transport.size} cannot be larger than number of stages {num_stages}"
            )
        self.submod = submodule
        self.stage_index = stage_index
        self.num_stages = num_stages
        self.device = torch.device(device)
        self.group = group
        self.group_rank = self._transport.rank
        self.group_size = self._transport.size
        self.dw_builder = dw_builder
        self.has_backward = False
        # A schedule replaces it if it places stages in another way.
        self.stage_index_to_group_rank = _ranks_of_stages(self.group_size, num_stages)
        self._examples = [None if value is None else _metas(_as_tensors(value)) for value in (input_args, output_args)]
        self._inputs: tuple[_Meta, ...] = ()
        self._outputs: tuple[_Meta, ...] = ()
        # What a step leaves for later actions, by microbatch.
        self.output_chunks: list[Any] = []
        self._forwarded: dict[int, _Forwarded] = {}
        self._arrived: dict[int, list[torch.Tensor]] = {}
        self._arrived_grads: dict[int, list[torch.Tensor | None]] = {}
        self._input_grads: dict[int, tuple[torch.Tensor | None, ...]] = {}
        self._weight_backwards: dict[int, Callable[[], Any]] = {}
        self._contexts: OrderedDict[int, Callable[[PipelineStageInfo], AbstractContextManager]] = OrderedDict()

    def __repr__(self) -> str:
        return f"[Stage {self.stage_index}]"

    @property
    def is_first(self) -> bool:
        """Whether this is the first stage of the pipeline."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether this is the last stage of the pipeline."""
        return self.stage_index + 1 == self.num_stages

    def clear_runtime_states(self) -> None:
        """Forget what an earlier step has left."""
        for left in (
            self.output_chunks,
            self._forwarded,
            self._arrived,
            self._arrived_grads,
            self._input_grads,
            self._weight_backwards,
        ):
            left.clear()

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
        if self._contexts:
            raise RuntimeError(
                "A pipeline forward context is already registered; remove its handle before registering another"
            )
        handle = RemovableHandle(self._contexts)
        self._contexts[handle.id] = context_factory
        return handle

    def _call(self, microbatch: int, args: tuple[Any, ...], kwargs: dict[str, Any], inference: bool = False) -> Any:
        """Run the module inside its context."""
        info = PipelineStageInfo(
            stage_index=self.stage_index, microbatch_index=microbatch, is_metadata_inference=inference
        )
        returned: list[Any] = []
        with next((make(info) for make in self._contexts.values()), nullcontext()):
            returned.append(self.submod(*args, **kwargs))
        if not returned:
            raise RuntimeError(
                "A pipeline forward context suppressed an exception from the stage module; forward contexts must not "
                "suppress exceptions"
            )
        return returned[0]

    # Messages.

    def _is_here(self, stage: int) -> bool:
        """Whether a stage is on this rank."""
        return self.stage_index_to_group_rank[stage] == self.group_rank

    def _receives(self, buffers: list[torch.Tensor], stage: int) -> list[Any]:
        source = self.stage_index_to_group_rank[stage]
        return [self._transport.recv_op(buffer, source) for buffer in buffers]

    def _sends(self, tensors: list[torch.Tensor], metas: list[_Meta], stage: int, what: str) -> list[Any]:
        """Describe the sending of tensors, which must be those that were agreed on."""
        target = self.stage_index_to_group_rank[stage]
        if len(tensors) != len(metas):
            raise PipeliningMetadataError(
                f"{self} {what}: {len(tensors)} tensors, but stage {stage} expects {len(metas)}"
            )
        for index, (tensor, meta) in enumerate(zip(tensors, metas)):
            if not meta.fits(tensor):
                raise PipeliningMetadataError(
                    f"{self} {what}, tensor {index}: {_brief(tensor)}, but stage {stage} expects {meta}. All "
                    "microbatches must have the same shapes."
                )
        return [self._transport.send_op(tensor.detach().contiguous(), target) for tensor in tensors]

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[Any]:
        """Return the operations that receive the inputs of microbatch `fwd_chunk_id`."""
        if self.is_first:
            return []
        self._arrived[fwd_chunk_id] = [meta.zeros(self.device) for meta in self._inputs]
        return self._receives(self._arrived[fwd_chunk_id], self.stage_index - 1)

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[Any]:
        """Return the operations that send the outputs of microbatch `fwd_chunk_id`."""
        if self.is_last:
            return []
        outputs = [*_as_tensors(self._forwarded[fwd_chunk_id].outputs)]
        return self._sends(outputs, [*self._outputs], self.stage_index + 1, f"output of microbatch {fwd_chunk_id}")

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[Any]:
        """Return the operations that receive the gradients of the outputs of microbatch `bwd_chunk_id`."""
        if not self.has_backward or self.is_last:
            return []
        buffers = [meta.zeros(self.device) if meta.grad else None for meta in self._outputs]
        self._arrived_grads[bwd_chunk_id] = buffers
        return self._receives([buffer for buffer in buffers if buffer is not None], self.stage_index + 1)

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[Any]:
        """Return the operations that send the gradients of the inputs of microbatch `bwd_chunk_id`."""
        if not self.has_backward or self.is_first:
            return []
        metas = [meta for meta in self._inputs if meta.grad]
        # The other side waits for a message, so an input that is not used gets a gradient of zeros.
        grads = [
            meta.zeros(self.device) if grad is None else grad
            for grad, meta in zip(self._input_grads.pop(bwd_chunk_id), self._inputs)
            if meta.grad
        ]
        return self._sends(grads, metas, self.stage_index - 1, f"gradient of microbatch {bwd_chunk_id}")

    def release_fwd_send_outputs(self, fwd_chunk_id: int) -> None:
        """Forget outputs that have been sent. The backward starts from their edges of the graph."""
        entry = self._forwarded.get(fwd_chunk_id)
        # A function for weights and data parallelism may look at the outputs.
        needed = self.is_last or self.dw_builder is not None or isinstance(self.submod, DistributedDataParallel)
        if entry is not None and not needed:
            entry.release(self.has_backward)

    def set_local_fwd_input(self, prev_stage_outputs: Any, mb_index: int) -> None:
        """Take the inputs of microbatch `mb_index` from the stage before, which is on the same rank."""
        self._arrived[mb_index] = [output.detach() for output in _as_tensors(prev_stage_outputs)]

    def set_local_bwd_input(self, next_stage_bwd_outputs: tuple[torch.Tensor | None, ...], mb_index: int) -> None:
        """Take the gradients of the outputs of microbatch `mb_index` from the stage after, on the same rank."""
        self._arrived_grads[mb_index] = [
            meta.zeros(self.device) if grad is None and meta.grad else grad
            for grad, meta in zip(next_stage_bwd_outputs, self._outputs)
        ]

    def get_local_bwd_output(self, mb_index: int) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of the inputs of microbatch `mb_index`, for the stage before on the same rank."""
        return self._input_grads.pop(mb_index)

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
            grad = self.has_backward and torch.is_grad_enabled()
            # What was received are leaves of a new graph.
            args = tuple(
                tensor.requires_grad_(meta.grad and grad)
                for tensor, meta in zip(self._arrived.pop(fwd_chunk_id), self._inputs)
            )
        try:
            with self._local_gradients():
                output = self._call(fwd_chunk_id, args, kwargs)
        except Exception as error:
            raise RuntimeError(
                f"{self} failed to run forward of microbatch {fwd_chunk_id}: {error}\n"
                f"args: {_brief(args)}\nkwargs: {_brief(kwargs)}"
            ) from error
        if self.is_last and save_forward_output:
            self.output_chunks.append(output)
        inputs, _ = tree_flatten((args, kwargs))
        self._forwarded[fwd_chunk_id] = _Forwarded(_as_tuple(output), inputs)
        return output

    def _local_gradients(self, last: bool = False) -> AbstractContextManager:
        """Return a context in which data parallelism keeps gradients on this rank, except in the `last` backward."""
        if isinstance(self.submod, DistributedDataParallel) and not last:
            return self.submod.no_sync()
        return nullcontext()

    def _run_backward(self, run: Callable[[], Any], microbatch: int, last: bool) -> Any:
        if isinstance(self.submod, FSDPModule):
            # Parameters stay whole, and gradients are summed up, until the last microbatch.
            self.submod.set_is_last_backward(last)
            self.submod.set_reshard_after_backward(last)
            self.submod.set_requires_gradient_sync(last)
        try:
            with self._local_gradients(last):
                return run()
        except Exception as error:
            raise RuntimeError(f"{self} failed to run backward of microbatch {microbatch}: {error}") from error

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
            full_backward: `False` for the gradients of the inputs only. `backward_weight_one_chunk` completes them.
            last_backward: Whether this is the last backward of the stage in a step, after which data parallelism
                reduces the gradients.
        """
        if not self.has_backward:
            return
        if isinstance(self.submod, FSDPModule) and not full_backward:
            raise NotImplementedError(
                f"{self} FSDP reduces gradients in a full backward only. Use a schedule that does not split backwards."
            )
        entry = self._forwarded.pop(bwd_chunk_id)
        roots = (loss,) if self.is_last else entry.roots()
        grads = None if self.is_last else self._arrived_grads.pop(bwd_chunk_id)
        whole = lambda: stage_backward(roots, grads, entry.inputs)
        found: tuple[torch.Tensor | None, ...] = ()
        if full_backward or self.dw_builder is not None:
            found = self._run_backward(whole, bwd_chunk_id, last_backward)
            if self.dw_builder is not None:
                weights = self.dw_builder()
                if full_backward:
                    weights()
                else:
                    self._weight_backwards[bwd_chunk_id] = weights
        elif self.is_first:
            # The first stage sends no gradients, so its backward is not split. It runs as a whole with the weights.
            self._weight_backwards[bwd_chunk_id] = whole
        else:
            found, groups = self._run_backward(
                lambda: stage_backward_input(roots, grads, entry.inputs, self.submod.parameters()), bwd_chunk_id, False
            )
            self._weight_backwards[bwd_chunk_id] = lambda: stage_backward_weight(self.submod.parameters(), groups)
        if self.is_first:
            return
        # Keyword arguments are this stage's own, so their gradients are not sent.
        self._input_grads[bwd_chunk_id] = found[: len(self._inputs)]
        if self.is_last:
            for output in entry.outputs:
                if isinstance(output, torch.Tensor) and not output._is_view():
                    output.detach_()  # The output is kept for the caller. Its graph is not needed any more.

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """Compute the gradients of the weights for a microbatch whose backward was split.

        Args:
            bwd_chunk_id: Index of the microbatch.
            last_backward: Whether this is the last backward of the stage in a step.
        """
        if self.has_backward:
            self._run_backward(self._weight_backwards.pop(bwd_chunk_id), bwd_chunk_id, last_backward)

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divide the gradients of the stage.

        Args:
            grad_scale_factor: Divisor: the number of microbatches if the loss of a microbatch is a mean, 1 if a sum.
        """
        grads = [parameter.grad for parameter in self.submod.parameters() if parameter.grad is not None]
        if grad_scale_factor != 1:
            for grad in grads:
                grad.div_(grad_scale_factor)

    # Shapes.

    def _agree(self, static: bool, before: Any, kwargs: dict[str, Any]) -> tuple[_Meta, ...]:
        """Find out the shapes of inputs and outputs, and tell the next stage.

        Args:
            static: Whether the examples of all stages say the shapes.
            before: Arguments of the first stage, or what the stage before has returned, if it is on this rank.
            kwargs: Keyword arguments of the first microbatch.

        Returns:
            The outputs.
        """
        if static:
            # Examples seldom say that they require gradients, but floating-point activations do.
            self._inputs, self._outputs = (
                tuple(replace(meta, grad=meta.dtype.is_floating_point or meta.dtype.is_complex) for meta in metas or ())
                for metas in self._examples
            )
            return self._outputs
        if self.is_first:
            values = tree_map(lambda tensor: tensor.detach().requires_grad_(tensor.requires_grad), _as_tensors(before))
            self._inputs = _metas(values)
        else:
            here = self._is_here(self.stage_index - 1)
            source = self.stage_index_to_group_rank[self.stage_index - 1]
            self._inputs = before if here else self._transport.recv_object(source)
            values = [meta.zeros(self.device).requires_grad_(meta.grad) for meta in self._inputs]
        self._outputs = self._try(values, kwargs)
        for what, examples, found in zip(("input", "output"), self._examples, (self._inputs, self._outputs)):
            for difference in _differences(examples, found) if examples is not None else ():
                warnings.warn(f"Stage {self.stage_index} {what}{difference}. The example is not used.", stacklevel=2)
        if not self.is_last and not self._is_here(self.stage_index + 1):
            self._transport.send_object(self._outputs, self.stage_index_to_group_rank[self.stage_index + 1])
        return self._outputs

    def _try(self, values: Any, kwargs: dict[str, Any]) -> tuple[_Meta, ...]:
        """Run the module once, restore its buffers, and describe its outputs."""
        saved = [(buffer, buffer.detach().clone()) for buffer in self.submod.buffers()]
        try:
            with torch.set_grad_enabled(self.has_backward):
                output = self._call(0, tuple(values), kwargs, inference=True)
        finally:
            with torch.no_grad():
                for buffer, value in saved:
                    buffer.copy_(value)
            for module in self.submod.modules():
                if isinstance(module, FSDPModule):
                    module.reshard()
        # Nothing is sent from the last stage, so its outputs may be anything.
        return () if self.is_last else _metas(_as_tensors(output))


# PyTorch's name of what programs derive stages of their own from.
_PipelineStageBase = PipelineStage


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: Any, device: torch.device, group: Any = None
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
