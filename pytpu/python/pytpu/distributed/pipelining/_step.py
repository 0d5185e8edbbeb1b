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
from .microbatch import TensorChunkSpec, _split_along, merge_chunks, split_args_kwargs_into_chunks
from .stage import PipelineStage


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
        self._losses: dict[int, torch.Tensor] = {}  # By microbatch.
        # Whether the shapes of messages are known, and for which mode: with or without a backward.
        self._prepared_for: bool | None = None
        self._is_checked = False
        # What is under way in a step.
        self.backward_counter: Counter[int] = Counter()
        self.fwd_recv_ops: dict[tuple[int, int], list[Any]] = {}
        self.bwd_recv_ops: dict[tuple[int, int], list[Any]] = {}
        self.unshard_ops: dict[int, list[Any]] = {}
        self.unsharded_stages: set[int] = set()
        self._custom: dict[_ComputationType, Callable] = {}

    # What kinds of schedules define.

    def _local_stages(self) -> list[PipelineStage]:
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
        So set gradients to `None` before each step.

        Args:
            *args: Positional arguments for the first stage, for the whole batch.
            target: Target for the loss, for the whole batch, on the rank of the last stage.
            losses: List that is filled with the loss of each microbatch, on the rank of the last stage.
            return_outputs: Whether to return outputs.
            loss_kwargs: Keyword arguments for the loss function.
            arg_mbs: Positional arguments of each microbatch, instead of `args`.
            kwarg_mbs: Keyword arguments of each microbatch, instead of `kwargs`.
            target_mbs: Target of each microbatch, instead of `target`.
            finalize_gradients: Must be `True` for stages with FSDP, and has no effect on others.
            **kwargs: Keyword arguments for the stages of this rank, for the whole batch.

        Returns:
            The merged outputs on the rank of the last stage, `None` on other ranks.

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
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        if arg_mbs is None and kwarg_mbs is None and target_mbs is None:
            arg_mbs, kwarg_mbs, target_mbs = self._split(args, kwargs, target)
        else:
            given = {"args": args, "kwargs": kwargs, "target": target}
            arg_mbs, kwarg_mbs, target_mbs = self._check_split(given, arg_mbs, kwarg_mbs, target_mbs)
        self._step_microbatches(arg_mbs, kwarg_mbs, target_mbs, losses, return_outputs, loss_kwargs=loss_kwargs)
        for stage in stages:
            if stage.is_last and return_outputs:
                return merge_chunks(stage.output_chunks, self._output_merge_spec)
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

        It may be called under `torch.no_grad()`. The loss is computed if a target is given.
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
        arg_mbs: list,
        kwarg_mbs: list,
        target_mbs: list | None = None,
        losses: list | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Run the row of this rank. The arguments are those of `step`, split. A subclass can override it."""
        stages = self._local_stages()
        if self._has_backward and target_mbs is None and any(stage.is_last for stage in stages):
            raise ValueError("the last stage needs a target: the schedule has a loss function")
        rows = self._rows()
        if not self._is_checked:
            _check_progress(rows, lambda stage: stages[0].stage_index_to_group_rank[stage], stages[0].num_stages)
            self._is_checked = True
        self._agree_on_shapes(stages, arg_mbs[0], kwarg_mbs[0])
        self.backward_counter.clear()
        self.fwd_recv_ops.clear()
        self.bwd_recv_ops.clear()
        self._losses.clear()
        executor = _Executor(self, stages, arg_mbs, kwarg_mbs, target_mbs, return_outputs, loss_kwargs)
        context = _PipelineContext(self, arg_mbs, kwarg_mbs, target_mbs, losses)
        executor.run(rows, self._rank_of_rows(), self._custom, context)
        if losses is not None and any(stage.is_last for stage in stages):
            if len(self._losses) != self._n_microbatches:
                raise RuntimeError(f"Expecting {self._n_microbatches} losses but got {len(self._losses)}")
            losses[:] = [self._losses[index] for index in range(self._n_microbatches)]
        self._losses.clear()

    def _agree_on_shapes(self, stages: list[PipelineStage], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Find out the shapes of messages, at the first step and at the first one after a change of mode."""
        if self._prepared_for == self._has_backward:
            return
        devices = {stage.device for stage in stages}
        if len(devices) != 1:
            raise ValueError(f"All local pipeline stages must use one device, but found {sorted(map(str, devices))}")
        device = devices.pop()
        # One stage without examples makes all others tell their shapes.
        static = all(None not in stage._examples for stage in stages)
        if len(set(stages[0].stage_index_to_group_rank.values())) > 1:
            static = stages[0]._transport.all(static)
        others = [] if device.type == "cpu" else [device]
        with torch.random.fork_rng(devices=others, device_type=device.type):
            before: Any = args
            for stage in sorted(stages, key=lambda stage: stage.stage_index):
                before = stage._agree(static, before, kwargs)
        self._prepared_for = self._has_backward

    def _assert_unsharded(self, stage: PipelineStage) -> None:
        """Wait until the parameters of a stage with FSDP are whole."""
        if not isinstance(stage.submod, FSDPModule):
            return
        index = stage.stage_index
        for handle in self.unshard_ops.pop(index, ()):
            if handle is not None:
                handle.wait()
            self.unsharded_stages.add(index)
        if index not in self.unsharded_stages:
            raise RuntimeError(f"the parameters of stage {index} have not been gathered")

    # Losses.

    def _maybe_compute_loss(
        self, stage: PipelineStage, output: Any, target_mbs: list | None, mb_index: int, loss_kwargs: Any = None
    ) -> None:
        """Compute the loss of a microbatch, if this is the last stage and there are a loss function and a target."""
        if stage.is_last and self._loss_fn is not None and target_mbs is not None:
            self._losses[mb_index] = self._loss_fn(output, target_mbs[mb_index], **(loss_kwargs or {}))

    def _maybe_get_loss(self, stage: PipelineStage, mb_index: int) -> torch.Tensor | None:
        """Return the loss of a microbatch, `None` for other stages than the last one."""
        return self._losses[mb_index] if stage.is_last and self._has_backward else None

    # Microbatches.

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any) -> tuple[list, list, list | None]:
        """Split arguments and targets of a batch."""
        count = self._n_microbatches
        pieces: tuple[list, list] = [()] * count, [{}] * count
        if args or kwargs:
            pieces = split_args_kwargs_into_chunks(args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec)
            if len(pieces[0]) != count:
                raise ValueError(f"Expecting {count} arg_mbs but got {len(pieces[0])}")
        return *pieces, None if target is None else list(_split_along(target, TensorChunkSpec(0), count))

    def _check_split(
        self, given: dict[str, Any], arg_mbs: list | None, kwarg_mbs: list | None, target_mbs: list | None
    ) -> tuple[list, list, list | None]:
        """Check microbatches that the caller has split. `given` is what was passed for the whole batch."""
        for value, message in (
            (given["args"], "pass pre-split positional inputs through arg_mbs=... instead of positional args."),
            (given["target"], "pass pre-split targets through target_mbs=... instead of target=..."),
        ):
            if value is not None and value != ():
                raise ValueError(f"When using pre-split inputs, {message}")
        if given["kwargs"]:
            raise ValueError(
                f"Unexpected keyword arguments with pre-split inputs: {', '.join(sorted(given['kwargs']))}. "
                "Pass pre-split keyword inputs through kwarg_mbs=..."
            )
        count = self._n_microbatches
        for name, values, kind in (("arg", arg_mbs, tuple), ("kwarg", kwarg_mbs, dict), ("target", target_mbs, object)):
            if values is None:
                continue
            if not isinstance(values, list):
                raise TypeError(f"{name}_mbs must be a list but got a {type(values)}")
            if len(values) != count:
                raise ValueError(f"Expecting {count} {name}_mbs but got {len(values)}")
            for index, value in enumerate(values):
                if not isinstance(value, kind):
                    raise TypeError(
                        f"{name}_mbs must be a list of {kind.__name__}s, but {name}_mbs[{index}] is a {type(value)}"
                    )
        return (
            [()] * count if arg_mbs is None else arg_mbs,
            [{}] * count if kwarg_mbs is None else kwarg_mbs,
            target_mbs,
        )
