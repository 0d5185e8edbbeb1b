"""The executor: it runs a rank's row of any table."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ...profiler import record_function
from ..fsdp import FSDPModule
from ._actions import (
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    FULL_BACKWARD,
    RECV_B,
    RECV_F,
    REDUCE_GRAD,
    RESHARD,
    SEND_B,
    SEND_F,
    UNSHARD,
    WAIT_REDUCE_GRAD,
    WAIT_SEND_B,
    WAIT_SEND_F,
    _Action,
    _as_text,
    _ComputationType,
)
from ._transport import _wait_batch_p2p
from .stage import PipelineStage

logger = logging.getLogger(__name__)

# Kinds that a step without a backward leaves out.
_OF_BACKWARD = frozenset((FULL_BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, SEND_B, RECV_B, WAIT_SEND_B, REDUCE_GRAD,
                          WAIT_REDUCE_GRAD))  # fmt: skip


def _forward_only(row: list[_Action]) -> list[_Action]:
    """Return a row without its backward. Waits for forward sends stay where the backwards were."""
    return [part for action in row for part in action.parts if part.computation_type not in _OF_BACKWARD]


class _Executor:
    """Runs actions for one step.

    Args:
        schedule: Schedule, which holds what is under way: receives, and stages whose parameters are whole.
        stages: Stages of this rank.
        arg_mbs: Positional arguments of each microbatch.
        kwarg_mbs: Keyword arguments of each microbatch.
        target_mbs: Target of each microbatch, or `None`.
        return_outputs: Whether the last stage keeps its outputs.
        loss_kwargs: Keyword arguments of the loss.
    """

    def __init__(
        self,
        schedule: Any,
        stages: list[PipelineStage],
        arg_mbs: list[tuple],
        kwarg_mbs: list[dict],
        target_mbs: list | None,
        return_outputs: bool,
        loss_kwargs: dict[str, Any] | None,
    ) -> None:
        self._schedule = schedule
        self._stages = {stage.stage_index: stage for stage in stages}
        self._args, self._kwargs, self._targets = arg_mbs, kwarg_mbs, target_mbs
        self._return_outputs, self._loss_kwargs = return_outputs, loss_kwargs
        self._sends: dict[tuple[_ComputationType, int, int], tuple[list[Any], list[Any]]] = {}

    def run(self, rows: dict[int, list[_Action]], rank: int, custom: dict[_ComputationType, Callable], context: Any):
        """Run the row of `rank`. Functions in `custom` replace kinds of actions."""
        row = rows[rank] if self._schedule._has_backward else _forward_only(rows[rank])
        for place, action in enumerate(row):
            try:
                with record_function(f"PP:{action}"):
                    if action.computation_type in custom:
                        custom[action.computation_type](action, context)
                    else:
                        for part in action.parts:
                            _ACTS[part.computation_type](self, part)
            except Exception:
                logger.error(
                    "pipeline rank %d: exception at action %d, %s, of:\n%s",
                    rank,
                    place,
                    action,
                    _as_text({**rows, rank: row}, error_step_number=place),
                )
                raise

    def _stage(self, action: _Action) -> tuple[PipelineStage, Any, tuple[int, Any]]:
        """Return the stage of an action, its microbatch and the key of both."""
        stage, _, microbatch, _ = action
        return self._stages[stage], microbatch, (stage, microbatch)

    # Messages.

    def _send(self, action: _Action) -> None:
        stage, microbatch, _ = self._stage(action)
        make = stage.get_fwd_send_ops if action.computation_type == SEND_F else stage.get_bwd_send_ops
        ops = make(microbatch)
        # The tensors of the operations have to live until they have been sent.
        self._sends[action.computation_type, stage.stage_index, microbatch] = ops, stage._transport.post(ops)

    def _wait_send(self, action: _Action) -> None:
        stage, microbatch, key = self._stage(action)
        forward = action.computation_type == WAIT_SEND_F
        _, works = self._sends.pop((SEND_F if forward else SEND_B, *key))
        _wait_batch_p2p(works)
        if forward:
            stage.release_fwd_send_outputs(microbatch)

    def _receive(self, action: _Action) -> None:
        stage, microbatch, key = self._stage(action)
        forward = action.computation_type == RECV_F
        make = stage.get_fwd_recv_ops if forward else stage.get_bwd_recv_ops
        pending = self._schedule.fwd_recv_ops if forward else self._schedule.bwd_recv_ops
        pending[key] = stage._transport.post(make(microbatch))

    # Parameters.

    def _unshard(self, action: _Action) -> None:
        stage, index = self._stages[action.stage_index], action.stage_index
        if not isinstance(stage.submod, FSDPModule) or index in self._schedule.unsharded_stages:
            return
        self._schedule.unshard_ops[index] = [
            module.unshard(async_op=True) for module in stage.submod.modules() if isinstance(module, FSDPModule)
        ]

    def _reshard(self, action: _Action) -> None:
        stage, index = self._stages[action.stage_index], action.stage_index
        if not isinstance(stage.submod, FSDPModule):
            return
        self._schedule._assert_unsharded(stage)
        for module in stage.submod.modules():
            if isinstance(module, FSDPModule):
                module.reshard()
        self._schedule.unsharded_stages.discard(index)

    def _reduce(self, action: _Action) -> None:
        schedule = self._schedule
        factor = schedule._n_microbatches if schedule.scale_grads else 1
        self._stages[action.stage_index].scale_grads(factor)

    def _nothing(self, action: _Action) -> None:
        """Reductions of data parallelism end within the last backward, so there is nothing to wait for."""

    # Computation.

    def _forward(self, action: _Action) -> None:
        stage, microbatch, key = self._stage(action)
        self._schedule._assert_unsharded(stage)
        if not stage.is_first and stage.stage_index - 1 not in self._stages:
            _wait_batch_p2p(self._schedule.fwd_recv_ops.pop(key))
        output = stage.forward_one_chunk(
            microbatch, self._args[microbatch], self._kwargs[microbatch], save_forward_output=self._return_outputs
        )
        self._schedule._maybe_compute_loss(stage, output, self._targets, microbatch, self._loss_kwargs)
        following = self._stages.get(stage.stage_index + 1)
        if following is not None:
            following.set_local_fwd_input(output, microbatch)

    def _backward(self, action: _Action) -> None:
        stage, microbatch, key = self._stage(action)
        schedule = self._schedule
        schedule._assert_unsharded(stage)
        if not stage.is_last and stage.stage_index + 1 not in self._stages:
            _wait_batch_p2p(schedule.bwd_recv_ops.pop(key))
        full = action.computation_type == FULL_BACKWARD
        stage.backward_one_chunk(
            microbatch,
            loss=schedule._maybe_get_loss(stage, microbatch),
            full_backward=full,
            last_backward=full and self._count(stage),
        )
        before = self._stages.get(stage.stage_index - 1)
        if before is not None:
            before.set_local_bwd_input(stage.get_local_bwd_output(microbatch), microbatch)

    def _weights(self, action: _Action) -> None:
        stage, microbatch, _ = self._stage(action)
        self._schedule._assert_unsharded(stage)
        stage.backward_weight_one_chunk(microbatch, last_backward=self._count(stage))

    def _count(self, stage: PipelineStage) -> bool:
        """Count a backward. Return whether it is the last one of the stage."""
        self._schedule.backward_counter[stage.stage_index] += 1
        return self._schedule.backward_counter[stage.stage_index] == self._schedule._n_microbatches


_ACTS: dict[_ComputationType, Callable[[_Executor, _Action], None]] = {
    FORWARD: _Executor._forward,
    FULL_BACKWARD: _Executor._backward,
    BACKWARD_INPUT: _Executor._backward,
    BACKWARD_WEIGHT: _Executor._weights,
    SEND_F: _Executor._send,
    SEND_B: _Executor._send,
    WAIT_SEND_F: _Executor._wait_send,
    WAIT_SEND_B: _Executor._wait_send,
    RECV_F: _Executor._receive,
    RECV_B: _Executor._receive,
    UNSHARD: _Executor._unshard,
    RESHARD: _Executor._reshard,
    REDUCE_GRAD: _Executor._reduce,
    WAIT_REDUCE_GRAD: _Executor._nothing,
}
