"""A step of any schedule: from a batch to outputs, losses and gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytpu as torch

from ..fsdp import FSDPModule
from ._actions import _Action, _ComputationType
from ._execution import _Executor
from ._simulation import _check_progress
from ._utils import PipeliningMetadataError
from .microbatch import TensorChunkSpec, _split_tensor, merge_chunks, split_args_kwargs_into_chunks
from .stage import _PipelineStageBase


@dataclass
class _PipelineContext:
    """What a custom function for an action gets.

    Args:
        schedule_ref: Schedule.
        arg_mbs: Positional arguments of each microbatch.
        kwarg_mbs: Keyword arguments of each microbatch.
        target_mbs: Target of each microbatch.
        losses: List of the caller for losses.
    """

    schedule_ref: _PipelineSchedule
    arg_mbs: list[tuple] | None = None
    kwarg_mbs: list[dict] | None = None
    target_mbs: list | None = None
    losses: list | None = None


class _PipelineSchedule:
    """What all schedules share: a step from a batch to losses and gradients.

    Args:
        n_microbatches: Number of microbatches of a step.
        loss_fn: Function of the output of the last stage and the target. Without it, a step has no backward.
        args_chunk_spec: How to split positional arguments. The default is dimension 0 of all tensors.
        kwargs_chunk_spec: How to split keyword arguments.
        output_merge_spec: How to merge outputs. The default is dimension 0 of all tensors.
        scale_grads: Divide gradients by `n_microbatches`, for losses that are means.
    """

    def __init__(
        self,
        n_microbatches: int,
        loss_fn: Callable[..., torch.Tensor] | None = None,
        args_chunk_spec: tuple[TensorChunkSpec, ...] | None = None,
        kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None,
        output_merge_spec: dict[str, Any] | tuple[Any] | None = None,
        scale_grads: bool = True,
    ) -> None:
        self._n_microbatches = n_microbatches
        self._loss_fn = loss_fn
        self._args_chunk_spec = args_chunk_spec
        self._kwargs_chunk_spec = kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self.scale_grads = scale_grads
        self._has_backward = loss_fn is not None
        self._backward_requires_autograd = True
        self._internal_losses: list[torch.Tensor] = []
        # Whether the shapes of messages are known, and for which mode: with or without a backward.
        self._prepared_for: bool | None = None
        self._is_checked = False
        # What is under way in a step.
        self.backward_counter: Counter[int] = Counter()
        self.fwd_recv_ops: dict[tuple[int, int], list[Any]] = {}
        self.bwd_recv_ops: dict[tuple[int, int], list[Any]] = {}
        self.unshard_ops: dict[int, list[Any]] = {}
        self.unsharded_stages: set[int] = set()
        self._comp_type_to_function_map: dict[_ComputationType, Callable] = {}

    # What kinds of schedules define.

    def _local_stages(self) -> list[_PipelineStageBase]:
        """Return the stages of this rank."""
        raise NotImplementedError

    def _rank_of_rows(self) -> int:
        """Return which row is that of this rank."""
        raise NotImplementedError

    def _rows(self) -> dict[int, list[_Action]]:
        """Return the table with messages."""
        raise NotImplementedError

    # A step.

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        arg_mbs: list[tuple] | None = None,
        kwarg_mbs: list[dict] | None = None,
        target_mbs: list | None = None,
        finalize_gradients: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Run one step: the forward and, with a loss function, the backward of all microbatches.

        All ranks have to call it. Gradients are added to those of the parameters, and `scale_grads` divides the sums.
        So set gradients to ``None`` before each step.

        Args:
            *args: Positional arguments for the first stage, for the whole batch.
            target: Target for the loss, for the whole batch, on the rank of the last stage.
            losses: List that is filled with the loss of each microbatch, on the rank of the last stage.
            return_outputs: Whether to return outputs.
            loss_kwargs: Keyword arguments for the loss function.
            arg_mbs: Positional arguments of each microbatch, instead of `args`.
            kwarg_mbs: Keyword arguments of each microbatch, instead of `kwargs`.
            target_mbs: Target of each microbatch, instead of `target`.
            finalize_gradients: Must be ``True`` for stages with FSDP, and has no effect on others.
            **kwargs: Keyword arguments for the stages of this rank, for the whole batch.

        Returns:
            The merged outputs on the rank of the last stage, ``None`` on other ranks.

        Raises:
            RuntimeError: If there is a backward but gradients are switched off, or a stage raised an error.
            TypeError: If a list of microbatches is no list.
            ValueError: If arguments are given both whole and split, or their number is not that of microbatches, or the
                table would never end.
        """
        if self._has_backward and self._backward_requires_autograd and not torch.is_grad_enabled():
            raise RuntimeError(
                "step() requires gradients to be enabled for backward computation; it should not be used under "
                "torch.no_grad() context. Please call eval() instead."
            )
        stages = self._local_stages()
        if not finalize_gradients and any(isinstance(stage.submod, FSDPModule) for stage in stages):
            raise NotImplementedError("step(finalize_gradients=False): gradients of FSDP are reduced in each step")
        for stage in stages:
            stage.has_backward = self._has_backward
            stage.clear_runtime_states()
        arg_mbs, kwarg_mbs, target_mbs = self._get_microbatch_inputs(
            args, kwargs, target, arg_mbs, kwarg_mbs, target_mbs
        )
        self._step_microbatches(arg_mbs, kwarg_mbs, target_mbs, losses, return_outputs, loss_kwargs=loss_kwargs)
        for stage in stages:
            if stage.is_last and return_outputs:
                return self._merge_outputs(stage.output_chunks)
        return None

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list | None = None,
        arg_mbs: list[tuple] | None = None,
        kwarg_mbs: list[dict] | None = None,
        target_mbs: list | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run the forward of all microbatches. The arguments are those of `step`.

        It may be called under ``torch.no_grad()``. The loss is computed if a target is given.
        """
        has_backward = self._has_backward
        self._has_backward = False
        try:
            return self.step(
                *args,
                target=target,
                losses=losses,
                arg_mbs=arg_mbs,
                kwarg_mbs=kwarg_mbs,
                target_mbs=target_mbs,
                **kwargs,
            )
        finally:
            self._has_backward = has_backward

    def _step_microbatches(
        self,
        arg_mbs: list | None = None,
        kwarg_mbs: list | None = None,
        target_mbs: list | None = None,
        losses: list | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Run the row of this rank. The arguments are those of `step`, split."""
        arg_mbs, kwarg_mbs = self._check_inputs(arg_mbs, kwarg_mbs, target_mbs, losses)
        stages = self._local_stages()
        if self._has_backward and target_mbs is None and any(stage.is_last for stage in stages):
            raise PipeliningMetadataError("loss_fn and target required for last stage")
        rows = self._rows()
        if not self._is_checked:
            _check_progress(rows, lambda stage: stages[0].stage_index_to_group_rank[stage], stages[0].num_stages)
            self._is_checked = True
        self._initialize_pp_stages(stages, arg_mbs[0], kwarg_mbs[0])
        self.backward_counter.clear()
        self.fwd_recv_ops.clear()
        self.bwd_recv_ops.clear()
        self._internal_losses.clear()
        executor = _Executor(self, stages, arg_mbs, kwarg_mbs, target_mbs, return_outputs, loss_kwargs)
        context = _PipelineContext(self, arg_mbs, kwarg_mbs, target_mbs, losses)
        executor.run(rows, self._rank_of_rows(), self._comp_type_to_function_map, context)
        self._update_losses(stages, losses)

    def _initialize_pp_stages(
        self, stages: list[_PipelineStageBase], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Find out the shapes of messages, at the first step and at the first one after a change of mode."""
        if self._prepared_for == self._has_backward:
            return
        devices = {stage.device for stage in stages}
        if len(devices) != 1:
            raise ValueError(f"All local pipeline stages must use one device, but found {sorted(map(str, devices))}")
        device = devices.pop()
        static = all(stage._supports_static() for stage in stages)
        if len(set(stages[0].stage_index_to_group_rank.values())) > 1:
            # One stage without examples makes all others tell their shapes.
            static = stages[0]._transport.all(static)
        others = [] if device.type == "cpu" else [device]
        with torch.random.fork_rng(devices=others, device_type=device.type):
            metas: Any = None
            for stage in sorted(stages, key=lambda stage: stage.stage_index):
                metas = stage._prepare_forward_infra(
                    self._n_microbatches,
                    args if stage.is_first else metas,
                    kwargs,
                    has_backward=self._has_backward,
                    static=static,
                )
        self._prepared_for = self._has_backward

    def _assert_unsharded(self, stage: _PipelineStageBase) -> None:
        """Wait until the parameters of a stage with FSDP are whole."""
        if not isinstance(stage.submod, FSDPModule):
            return
        index = stage.stage_index
        for handle in self.unshard_ops.pop(index, ()):
            if handle is not None:
                handle.wait()
            self.unsharded_stages.add(index)
        if index not in self.unsharded_stages:
            raise AssertionError(f"Attempted to compute on sharded stage_idx={index}")

    # Losses.

    def _compute_loss(self, output: Any, target: Any, loss_kwargs: dict[str, Any] | None = None) -> torch.Tensor:
        if self._loss_fn is None:
            raise RuntimeError("the schedule has no loss function")
        return self._loss_fn(output, target, **(loss_kwargs or {}))

    def _maybe_compute_loss(
        self, stage: _PipelineStageBase, output: Any, target_mbs: list | None, mb_index: int, loss_kwargs=None
    ) -> None:
        """Compute the loss of a microbatch, if this is the last stage and there are a loss function and a target."""
        if stage.is_last and self._loss_fn is not None and target_mbs is not None:
            self._internal_losses.append(self._compute_loss(output, target_mbs[mb_index], loss_kwargs))

    def _maybe_get_loss(self, stage: _PipelineStageBase, mb_index: int) -> torch.Tensor | None:
        """Return the loss of a microbatch, ``None`` for other stages than the last one."""
        if not stage.is_last or self._loss_fn is None:
            return None
        if not 0 <= mb_index < len(self._internal_losses):
            raise RuntimeError(
                f"Loss for microbatch {mb_index} is not available. "
                f"Available losses for microbatches: {self._internal_losses}"
            )
        return self._internal_losses[mb_index]

    def _update_losses(self, stages: Any, losses: list | None) -> None:
        """Fill the caller's list of losses."""
        stages = stages if isinstance(stages, list) else [stages]
        if losses is not None and any(stage.is_last for stage in stages):
            if len(self._internal_losses) != self._n_microbatches:
                raise RuntimeError(f"Expecting {self._n_microbatches} losses but got {len(self._internal_losses)}")
            losses[:] = self._internal_losses
        self._internal_losses.clear()

    # Microbatches.

    def _check_inputs(
        self,
        arg_mbs: list | None = None,
        kwarg_mbs: list | None = None,
        target_mbs: list | None = None,
        losses: list | None = None,
    ) -> tuple[list, list]:
        """Return the arguments of microbatches, empty ones if there are none. Raise an error if they are malformed."""
        for name, values in (("arg_mbs", arg_mbs), ("kwarg_mbs", kwarg_mbs), ("target_mbs", target_mbs)):
            if values is None:
                continue
            if not isinstance(values, list):
                raise TypeError(f"{name} must be a list but got a {type(values)}")
            if len(values) != self._n_microbatches:
                raise ValueError(f"Expecting {self._n_microbatches} {name} but got {len(values)}")
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        arg_mbs = [()] * self._n_microbatches if arg_mbs is None else arg_mbs
        kwarg_mbs = [{}] * self._n_microbatches if kwarg_mbs is None else kwarg_mbs
        return arg_mbs, kwarg_mbs

    def _split_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> tuple[list, list]:
        """Split the arguments of a batch."""
        if not args and not kwargs:
            return self._check_inputs()
        return split_args_kwargs_into_chunks(
            args, kwargs, self._n_microbatches, self._args_chunk_spec, self._kwargs_chunk_spec
        )

    def _get_microbatch_inputs(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Any,
        arg_mbs: list | None,
        kwarg_mbs: list | None,
        target_mbs: list | None,
    ) -> tuple[list, list, list | None]:
        """Return arguments and targets of each microbatch, from those of the batch unless they are split already."""
        if arg_mbs is None and kwarg_mbs is None and target_mbs is None:
            arg_mbs, kwarg_mbs = self._split_inputs(args, kwargs)
            if target is not None:
                target_mbs = list(_split_tensor(target, TensorChunkSpec(0), self._n_microbatches))
            return arg_mbs, kwarg_mbs, target_mbs
        if args:
            raise ValueError(
                "When using pre-split inputs, pass pre-split positional inputs through arg_mbs=... instead of "
                "positional args."
            )
        if kwargs:
            raise ValueError(
                f"Unexpected keyword arguments with pre-split inputs: {', '.join(sorted(kwargs))}. "
                "Pass pre-split keyword inputs through kwarg_mbs=..."
            )
        if target is not None:
            raise ValueError(
                "When using pre-split inputs, pass pre-split targets through target_mbs=... instead of target=..."
            )
        arg_mbs, kwarg_mbs = self._check_inputs(arg_mbs, kwarg_mbs, target_mbs)
        for name, values, kind, plural in (
            ("arg_mbs", arg_mbs, tuple, "tuples"),
            ("kwarg_mbs", kwarg_mbs, dict, "dicts"),
        ):
            for index, value in enumerate(values):
                if not isinstance(value, kind):
                    raise TypeError(f"{name} must be a list of {plural}, but {name}[{index}] is a {type(value)}")
        return arg_mbs, kwarg_mbs, target_mbs

    def _merge_outputs(self, output_chunks: list[Any]) -> Any:
        """Merge the outputs of microbatches."""
        return merge_chunks(output_chunks, self._output_merge_spec)
