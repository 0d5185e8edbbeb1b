"""Schedules: in which order the ranks of a pipeline compute microbatches.

A schedule is a table. It has a row for each rank, and a row is a list of actions, such as `1F0`, the forward of stage
1 for microbatch 0. `_tables` makes the rows, `_lowering` adds messages, `_simulation` checks that no rank waits for
ever, and one executor runs the rows of all schedules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, Protocol

from ._actions import (
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    FULL_BACKWARD,
    OVERLAP_F_B,
    RECV_B as RECV_B,
    RECV_F as RECV_F,
    REDUCE_GRAD,
    RESHARD,
    SEND_B as SEND_B,
    SEND_F as SEND_F,
    UNSHARD,
    WAIT_REDUCE_GRAD,
    WAIT_SEND_B as WAIT_SEND_B,
    WAIT_SEND_F as WAIT_SEND_F,
    B as B,
    F as F,
    I as I,
    W as W,
    _Action,
    _as_text,
    _ComputationType,
    _read_csv,
    _write_csv,
)
from ._liveness import (
    PipelineActivationLiveness,
    _slots,
    analyze_pipeline_activation_liveness,
)
from ._lowering import (
    _check_reductions,
    _check_rows,
    _check_waits,
    _merged,
    _stages_ahead,
    _with_few_sends,
    _with_late_receives,
    _with_messages,
    _with_parameters,
    _with_reductions,
    _with_waits,
)
from ._shapes import _ranks_of_stages
from ._simulation import _in_steps, _write_trace
from ._step import _PipelineContext, _PipelineSchedule
from ._tables import (
    _dual_pipe_v_row,
    _gpipe_row,
    _interleaved_row,
    _interleaved_zero_bubble_row,
    _looped_bfs_row,
    _microbatches_per_round,
    _one_forward_one_backward_row,
    _with_bubbles,
    _zbv_row,
)
from ._transport import (
    _batch_p2p as _batch_p2p,
    _wait_batch_p2p as _wait_batch_p2p,
)
from .microbatch import TensorChunkSpec
from .stage import PipelineStage

__all__ = [
    "PipelineActivationLiveness",
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "analyze_pipeline_activation_liveness",
    "get_schedule_class",
]

logger = logging.getLogger(__name__)

# Programs that look at tables use PyTorch's names of these functions.
_add_reduce_grad = _with_reductions
_add_send_recv = _with_messages
_add_unshard_reshard = _with_parameters
_add_wait_send = _with_waits
_add_wait_send_budget = _with_few_sends
_assign_pipeline_activation_slots = _slots
_defer_recv_ops = _with_late_receives
_dump_chrometrace = _write_trace
_format_pipeline_order = _as_text
_merge_bw = _merged
_resolve_unshard_lookahead = _stages_ahead
_simulate_comms_compute = _in_steps
_validate_schedule = _check_rows
_validate_send_waits = _check_waits


def _reduce(row: list[_Action | None], microbatches: int) -> list[_Action | None]:
    """Return a row that ends the gradients of its stages. A row of a subclass may do so itself."""
    done = any(action is not None and action.computation_type == REDUCE_GRAD for action in row)
    return row if done else [*_with_reductions(row, microbatches)]


class PipelineScheduleSingle(_PipelineSchedule):
    """Base of schedules with one stage on each rank.

    Args:
        stage: Stage of this rank.
        n_microbatches: Number of microbatches of a step.
        loss_fn: Function of the output of the last stage and the target. Without it, a step has no backward.
        args_chunk_spec: How to split positional arguments. The default is dimension 0 of all tensors.
        kwargs_chunk_spec: How to split keyword arguments.
        output_merge_spec: How to merge outputs. The default is dimension 0 of all tensors.
        scale_grads: Divide gradients by `n_microbatches`, for losses that are means.
    """

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable | None = None,
        args_chunk_spec: tuple[TensorChunkSpec, ...] | None = None,
        kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None,
        output_merge_spec: dict[str, Any] | tuple[Any] | None = None,
        scale_grads: bool = True,
    ) -> None:
        super().__init__(n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        self._stage = stage
        self._num_stages = stage.num_stages
        self._lowered: dict[int, list[_Action]] | None = None
        self.pipeline_order: dict[int, list[_Action | None]] | None = self._table()

    def _table(self) -> dict[int, list[_Action | None]] | None:
        """Return the table, without messages. `None` if the schedule has none."""
        return None

    def _local_stages(self) -> list[PipelineStage]:
        return [self._stage]

    def _rank_of_rows(self) -> int:
        return self._stage.stage_index

    def _rows(self) -> dict[int, list[_Action]]:
        if self._lowered is None:
            if self.pipeline_order is None:
                raise NotImplementedError(f"{type(self).__name__} has neither a table nor its own _step_microbatches")
            rows = {rank: _reduce(row, self._n_microbatches) for rank, row in self.pipeline_order.items()}
            self._lowered = _with_waits(_with_messages(rows, lambda stage: stage, self._num_stages))
        return self._lowered


class _ScheduleForwardOnly(PipelineScheduleSingle):
    """Forwards alone, without a loss. The arguments are those of `PipelineScheduleSingle`."""

    def _table(self):
        return {
            rank: [
                action
                for action in _gpipe_row(rank, self._num_stages, self._n_microbatches)
                if action is None or action.computation_type == FORWARD
            ]
            for rank in range(self._num_stages)
        }

    def _step_microbatches(self, arg_mbs, kwarg_mbs, target_mbs=None, losses=None, *args, **kwargs):
        if target_mbs is not None or losses is not None:
            raise RuntimeError("Forward-only schedule does not support loss computation")
        super()._step_microbatches(arg_mbs, kwarg_mbs, target_mbs, losses, *args, **kwargs)


class ScheduleGPipe(PipelineScheduleSingle):
    """GPipe: all forwards, then all backwards. The arguments are those of `PipelineScheduleSingle`.

    A stage keeps the activations of all microbatches.
    """

    def _table(self):
        return {
            rank: _with_reductions(_gpipe_row(rank, self._num_stages, self._n_microbatches), self._n_microbatches)
            for rank in range(self._num_stages)
        }


class Schedule1F1B(PipelineScheduleSingle):
    """1F1B: one forward and one backward in turns. The arguments are those of `PipelineScheduleSingle`.

    A stage keeps the activations of at most as many microbatches as there are stages from it to the end.

    Raises:
        ValueError: If there are fewer microbatches than stages.
    """

    def _table(self):
        ranks, microbatches = self._num_stages, self._n_microbatches
        if microbatches < ranks:
            raise ValueError(
                f"Number of microbatches ({microbatches}) must be greater than or equal to the number of stages "
                f"({ranks})."
            )
        return {
            rank: _with_reductions(_one_forward_one_backward_row(rank, ranks, microbatches), microbatches)
            for rank in range(ranks)
        }


class PipelineScheduleMulti(_PipelineSchedule):
    """Base of schedules with several stages on each rank. A subclass sets `pipeline_order`, the table.

    Args:
        stages: Stages of this rank.
        n_microbatches: Number of microbatches of a step.
        loss_fn: Function of the output of the last stage and the target. Without it, a step has no backward.
        args_chunk_spec: How to split positional arguments. The default is dimension 0 of all tensors.
        kwargs_chunk_spec: How to split keyword arguments.
        output_merge_spec: How to merge outputs. The default is dimension 0 of all tensors.
        use_full_backward: Has no effect.
        scale_grads: Divide gradients by `n_microbatches`, for losses that are means.
        backward_requires_autograd: Whether a step needs gradients to be enabled. `False` for backwards by
            `_PipelineScheduleRuntime.register_custom_function`.
    """

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable | None = None,
        args_chunk_spec: tuple[TensorChunkSpec, ...] | None = None,
        kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None,
        output_merge_spec: dict[str, Any] | tuple[Any] | None = None,
        use_full_backward: bool | None = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
    ) -> None:
        super().__init__(n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        if use_full_backward is not None:
            logger.warning("'use_full_backward' has no effect: a table says where a backward is split")
        self._stages = stages
        self._num_stages = stages[0].num_stages
        self.pp_group_size = stages[0].group_size
        self.rank = stages[0].group_rank
        self._backward_requires_autograd = backward_requires_autograd
        self._place_stages(_ranks_of_stages(self.pp_group_size, self._num_stages))
        self.pipeline_order: dict[int, list[_Action | None]] = {}
        self.pipeline_order_with_comms: dict[int, list[_Action]] = {}

    def _place_stages(self, stage_to_rank: dict[int, int]) -> None:
        """Tell the stages on which ranks the others are."""
        self.stage_index_to_group_rank = stage_to_rank
        for stage in self._stages:
            stage.stage_index_to_group_rank = stage_to_rank

    def _rank_of(self, stage: int) -> int:
        return self.stage_index_to_group_rank[stage]

    def _local_stages(self) -> list[PipelineStage]:
        return self._stages

    def _rank_of_rows(self) -> int:
        return self.rank

    def _rows(self) -> dict[int, list[_Action]]:
        if not self.pipeline_order_with_comms:
            # A table of one's own may be forward only, so it is not validated here.
            places = (
                (part.stage_index, rank)
                for rank, row in self.pipeline_order.items()
                for action in row
                if action is not None
                for part in action.parts
            )
            self._place_stages({**self.stage_index_to_group_rank, **dict(places)})
            rows = {rank: _reduce(row, self._n_microbatches) for rank, row in self.pipeline_order.items()}
            self.pipeline_order_with_comms = _with_waits(_with_messages(rows, self._rank_of, self._num_stages))
        return self.pipeline_order_with_comms

    def _take_places(self, actions: dict[int, list[_Action | None]]) -> None:
        """Check a table and take the ranks of stages from it."""
        self._place_stages(_check_rows(actions, self.pp_group_size, self._num_stages, self._n_microbatches))

    def _dump_csv(self, filename: str) -> None:
        """Write the table to a file with one line for each rank."""
        _write_csv(filename, self.pipeline_order)

    def _load_csv(self, filename: str, format: Literal["compute_only", "compute_comms"] = "compute_only") -> None:
        """Read the table from a file with one line for each rank.

        Args:
            filename: File.
            format: `"compute_only"`, a table without messages.
        """
        if format != "compute_only":
            raise AssertionError(f'format must be "compute_only", got {format}')
        self.pipeline_order = _read_csv(filename)
        self.pipeline_order_with_comms = {}
        self._is_checked = False
        self._take_places(self.pipeline_order)


class _CustomFunctionProtocol(Protocol):
    """A function that runs an action."""

    def __call__(self, action: _Action, ctx: _PipelineContext) -> None: ...


_CUSTOM = frozenset(
    (
        FORWARD,
        FULL_BACKWARD,
        BACKWARD_INPUT,
        BACKWARD_WEIGHT,
        OVERLAP_F_B,
        UNSHARD,
        RESHARD,
        REDUCE_GRAD,
        WAIT_REDUCE_GRAD,
    )
)


class _PipelineScheduleRuntime(PipelineScheduleMulti):
    """A schedule whose table is read from a file, or made by a subclass, and lowered with options.

    Args:
        *args: Arguments of `PipelineScheduleMulti`.
        defer_pp_recv: Receive just before the use, not as early as possible.
        max_active_stages: Number of stages with FSDP whose parameters may be whole at a time.
        unshard_lookahead: How many stages ahead parameters are gathered: `"full"`, `"auto"` or one number for each
            rank.
        defer_reduce_grad_wait: Wait for a reduction of gradients before the next one, not at once.
        max_outstanding_sends: Largest number of sends that a rank has not waited for. `None` is no limit.
        **kwargs: Arguments of `PipelineScheduleMulti`.
    """

    def __init__(
        self,
        *args: Any,
        defer_pp_recv: bool = False,
        max_active_stages: int = 3,
        unshard_lookahead: Literal["full", "auto"] | tuple[int, ...] = "full",
        defer_reduce_grad_wait: bool = False,
        max_outstanding_sends: int | None = None,
        **kwargs: Any,
    ) -> None:
        if max_outstanding_sends is not None and (
            not isinstance(max_outstanding_sends, int)
            or isinstance(max_outstanding_sends, bool)
            or max_outstanding_sends < 0
        ):
            raise ValueError("max_outstanding_sends must be a non-negative integer")
        self._defer_pp_recv = defer_pp_recv
        self._max_active_stages = max_active_stages
        self._unshard_lookahead = unshard_lookahead
        self._defer_reduce_grad_wait = defer_reduce_grad_wait
        self._max_outstanding_sends = max_outstanding_sends
        super().__init__(*args, **kwargs)

    def register_custom_function(
        self, computation_type: _ComputationType, custom_function: _CustomFunctionProtocol
    ) -> None:
        """Run a function of one's own instead of a kind of action.

        Args:
            computation_type: Kind of computation, or of gathering parameters or reducing gradients.
            custom_function: Function of the action and a `_PipelineContext`.

        Raises:
            ValueError: If the kind is another one.
        """
        if computation_type not in _CUSTOM:
            raise ValueError(
                f"Invalid computation type {computation_type}. Only FORWARD, FULL_BACKWARD, BACKWARD_INPUT, "
                "BACKWARD_WEIGHT, OVERLAP_F_B, UNSHARD, RESHARD, REDUCE_GRAD, and WAIT_REDUCE_GRAD are supported."
            )
        if computation_type in self._custom:
            logger.warning("the custom function of %s is replaced", computation_type)
        self._custom[computation_type] = custom_function

    def _set_table(
        self,
        actions: dict[int, list[_Action | None]],
        format: Literal["compute_only", "compute_comms"] = "compute_only",
    ) -> None:
        """Lower a table.

        Args:
            actions: Rows of all ranks.
            format: `"compute_only"` for a table without messages, `"compute_comms"` for one that has all.

        Raises:
            AssertionError: If a stage does not compute each microbatch forward and backward.
            ValueError: If the table and its format do not fit, or an option cannot be met.
        """
        self._take_places(actions)
        ahead = _stages_ahead(self._unshard_lookahead, len(actions), self._max_active_stages)
        if format == "compute_only":
            rows = self._lower(actions, ahead)
        elif format == "compute_comms":
            rows = {}
            if any(stages != self._max_active_stages for stages in ahead):
                raise ValueError(
                    "unshard_lookahead cannot be applied to an already-lowered compute_comms schedule; provide a "
                    "compute-only schedule and apply the policy while lowering it"
                )
            for rank, row in actions.items():
                rows[rank] = [action for action in row if action is not None]
                if len(rows[rank]) != len(row):
                    raise AssertionError(f"Expected action to be not None, got {type(None)}")
            _check_reductions(rows)
        else:
            raise NotImplementedError(f"format={format!r} is not implemented")
        _check_waits(rows)
        if self._max_outstanding_sends is not None:
            rows = _with_few_sends(rows, self._rank_of, self._max_outstanding_sends)
        self.pipeline_order_with_comms = rows
        self._is_checked = False

    _prepare_schedule_with_comms = _set_table

    def _lower(self, actions: dict[int, list[_Action | None]], ahead: tuple[int, ...]) -> dict[int, list[_Action]]:
        rows = {}
        for rank, row in actions.items():
            for place, action in enumerate(row):
                if action is not None and not action.is_compute_op:
                    raise ValueError(
                        f"Expected compute-only schedule but found communication action '{action}' at rank {rank}, "
                        f"position {place}. Communication actions (e.g. SEND_F, RECV_F, etc.) should not be present "
                        "when format='compute_only'."
                    )
            rows[rank] = _with_reductions(
                _with_parameters(row, self._max_active_stages, unshard_lookahead=ahead[rank]),
                self._n_microbatches,
                self._defer_reduce_grad_wait,
            )
        rows = _with_waits(_with_messages(rows, self._rank_of, self._num_stages))
        return _with_late_receives(rows, self._rank_of) if self._defer_pp_recv else rows

    def _load_csv(self, filename: str, format: Literal["compute_only", "compute_comms"] = "compute_only") -> None:
        """Read the table from a file with one line for each rank.

        Args:
            filename: File.
            format: `"compute_only"` for a table without messages, `"compute_comms"` for one that has all.
        """
        if format == "compute_only":
            super()._load_csv(filename)
            self._set_table(self.pipeline_order)
        else:
            self._set_table(_read_csv(filename), format=format)

    def _dump_csv(self, filename: str, format: Literal["compute_only", "compute_comms"] = "compute_comms") -> None:
        """Write the table to a file with one line for each rank.

        Args:
            filename: File.
            format: `"compute_only"` for the table without messages, `"compute_comms"` for the one that runs.
        """
        table = self.pipeline_order if format == "compute_only" else self.pipeline_order_with_comms
        if not table:
            raise AssertionError(f"There is no table of format {format}")
        _write_csv(filename, table)

    def _steps(self) -> dict[int, list[_Action | None]]:
        """Return the lowered table in steps of one action, with idle places."""
        return _in_steps(self.pipeline_order_with_comms, self._rank_of, self._num_stages)


class _TableSchedule(_PipelineScheduleRuntime):
    """A schedule whose table is computed from the numbers of stages, ranks and microbatches."""

    _style = "loop"

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable | None = None,
        args_chunk_spec: tuple[TensorChunkSpec, ...] | None = None,
        kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None,
        output_merge_spec: dict[str, Any] | tuple[Any] | None = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
        max_active_stages: int = 3,
        unshard_lookahead: Literal["full", "auto"] | tuple[int, ...] = "full",
        *,
        defer_reduce_grad_wait: bool = False,
        max_outstanding_sends: int | None = None,
    ) -> None:
        super().__init__(
            stages,
            n_microbatches,
            loss_fn,
            args_chunk_spec,
            kwargs_chunk_spec,
            output_merge_spec,
            scale_grads=scale_grads,
            backward_requires_autograd=backward_requires_autograd,
            defer_pp_recv=defer_pp_recv,
            max_active_stages=max_active_stages,
            unshard_lookahead=unshard_lookahead,
            defer_reduce_grad_wait=defer_reduce_grad_wait,
            max_outstanding_sends=max_outstanding_sends,
        )
        self.n_local_stages = len(stages)
        self.num_stages = self._num_stages
        self._check_numbers()
        self._place_stages(_ranks_of_stages(self.pp_group_size, self._num_stages, self._style))
        self.pipeline_order = self._table()
        self._set_table(self.pipeline_order)

    def _check_numbers(self) -> None:
        """Raise `ValueError` if the schedule does not exist for these numbers."""

    def _table(self) -> dict[int, list[_Action | None]]:
        return {rank: self._row(rank) for rank in range(self.pp_group_size)}

    def _row(self, rank: int) -> list[_Action | None]:
        """Return the row of a rank, without messages."""
        raise NotImplementedError


class ScheduleLoopedBFS(_TableSchedule):
    """Breadth-first pipeline: all microbatches of a stage before those of the rank's next stage.

    Args:
        stages: Stages of this rank.
        n_microbatches: Number of microbatches of a step.
        loss_fn: Function of the output of the last stage and the target. Without it, a step has no backward.
        output_merge_spec: How to merge outputs. The default is dimension 0 of all tensors.
        scale_grads: Divide gradients by `n_microbatches`, for losses that are means.
        backward_requires_autograd: Whether a step needs gradients to be enabled.
        defer_pp_recv: Receive just before the use, not as early as possible.
        max_active_stages: Number of stages with FSDP whose parameters may be whole at a time.
        unshard_lookahead: How many stages ahead parameters are gathered.
        defer_reduce_grad_wait: Wait for a reduction of gradients before the next one, not at once.
        max_outstanding_sends: Largest number of sends that a rank has not waited for. `None` is no limit.

    Source: https://arxiv.org/abs/2211.05953
    """

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable | None = None,
        output_merge_spec: dict[str, Any] | tuple[Any] | None = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
        max_active_stages: int = 3,
        unshard_lookahead: Literal["full", "auto"] | tuple[int, ...] = "full",
        *,
        defer_reduce_grad_wait: bool = False,
        max_outstanding_sends: int | None = None,
    ) -> None:
        super().__init__(
            stages,
            n_microbatches,
            loss_fn,
            output_merge_spec=output_merge_spec,
            scale_grads=scale_grads,
            backward_requires_autograd=backward_requires_autograd,
            defer_pp_recv=defer_pp_recv,
            max_active_stages=max_active_stages,
            unshard_lookahead=unshard_lookahead,
            defer_reduce_grad_wait=defer_reduce_grad_wait,
            max_outstanding_sends=max_outstanding_sends,
        )

    def _row(self, rank: int) -> list[_Action | None]:
        return _looped_bfs_row(rank, self.pp_group_size, self.n_local_stages, self._n_microbatches)


class ScheduleInterleaved1F1B(_TableSchedule):
    """1F1B over several stages on each rank.

    The arguments are those of `ScheduleLoopedBFS` and of `PipelineScheduleMulti`.

    With `rounds = max(1, n_microbatches // ranks)`, a rank takes `n_microbatches / rounds` microbatches through a
    stage before it goes on with its next stage.

    Raises:
        ValueError: If `n_microbatches` is no multiple of the number of rounds.

    Source: https://arxiv.org/abs/2104.04473
    """

    def _check_numbers(self) -> None:
        self.number_of_rounds = max(1, self._n_microbatches // self.pp_group_size)
        self.microbatches_per_round = _microbatches_per_round(
            self.pp_group_size, self._n_microbatches, "Interleaved 1F1B"
        )

    def _row(self, rank: int) -> list[_Action | None]:
        return _interleaved_row(
            rank, self.pp_group_size, self.n_local_stages, self._n_microbatches, self.microbatches_per_round
        )


class ScheduleInterleavedZeroBubble(_TableSchedule):
    """Interleaved 1F1B whose backwards are split: gradients of weights run later, where a rank would be idle.

    The arguments are those of `ScheduleLoopedBFS` and of `PipelineScheduleMulti`.

    Raises:
        ValueError: If `n_microbatches` is no multiple of the number of rounds.

    Source: ZB-H1 of https://arxiv.org/abs/2401.10241
    """

    def _check_numbers(self) -> None:
        self.number_of_rounds = max(1, self._n_microbatches // self.pp_group_size)
        self.microbatches_per_round = _microbatches_per_round(self.pp_group_size, self._n_microbatches, "Zero bubble")

    def _table(self) -> dict[int, list[_Action | None]]:
        return _with_bubbles(super()._table())

    def _row(self, rank: int) -> list[_Action | None]:
        return _interleaved_zero_bubble_row(
            rank, self.pp_group_size, self.n_local_stages, self._n_microbatches, self.microbatches_per_round
        )


class ScheduleZBVZeroBubble(_TableSchedule):
    """Zero bubble with two stages on each rank in the form of a V: rank 0 has the first and the last stage.

    The arguments are those of `ScheduleLoopedBFS` and of `PipelineScheduleMulti`.

    There are no idle places if a forward, the gradients of inputs and the gradients of weights take the same time.

    Raises:
        ValueError: If there are not two stages.

    Source: ZB-V of https://arxiv.org/abs/2401.10241
    """

    _style = "v"

    def _check_numbers(self) -> None:
        if self.n_local_stages != 2:
            raise ValueError(f"ZBV requires exactly 2 stages per rank, but got {self.n_local_stages}.")

    def _row(self, rank: int) -> list[_Action | None]:
        return _zbv_row(rank, self.pp_group_size, self._n_microbatches)


class ScheduleDualPipeV(_TableSchedule):
    """DualPipeV: two stages on each rank in the form of a V, and places at which a rank runs a forward and a backward.

    The arguments are those of `ScheduleLoopedBFS` and of `PipelineScheduleMulti`.

    The two run one after the other, unless a function for `OVERLAP_F_B` is registered.

    Raises:
        ValueError: If there are not two stages, or fewer microbatches than stages.

    Source: https://github.com/deepseek-ai/DualPipe
    """

    _style = "v"

    def _check_numbers(self) -> None:
        if self.n_local_stages != 2:
            raise ValueError(f"ZBV requires exactly 2 stages per rank, but got {self.n_local_stages}.")
        if self._n_microbatches < self._num_stages:
            raise ValueError(
                f"DualPipeV requires at least as many microbatches as stages, but got {self._n_microbatches} "
                f"microbatches and {self._num_stages} stages."
            )

    def _row(self, rank: int) -> list[_Action | None]:
        return _dual_pipe_v_row(rank, self.pp_group_size, self._n_microbatches)


_SCHEDULES = {
    "1F1B": Schedule1F1B,
    "Interleaved1F1B": ScheduleInterleaved1F1B,
    "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS,
    "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle,
    "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble,
    "DualPipeV": ScheduleDualPipeV,
}


def get_schedule_class(schedule_name: str) -> type[_PipelineSchedule]:
    """Return the class of a schedule.

    Args:
        schedule_name: Name, in any case: `"1F1B"`, `"GPipe"`, `"Interleaved1F1B"`, `"LoopedBFS"`,
            `"InterleavedZeroBubble"`, `"ZBVZeroBubble"`, `"DualPipeV"`, or a base class.

    Raises:
        ValueError: If there is no such schedule.

    Example:
        >>> from pytpu.distributed.pipelining.schedules import get_schedule_class
        >>> get_schedule_class("gpipe").__name__
        'ScheduleGPipe'
    """
    for name, schedule in _SCHEDULES.items():
        if name.lower() == schedule_name.lower():
            return schedule
    raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(_SCHEDULES)}")
