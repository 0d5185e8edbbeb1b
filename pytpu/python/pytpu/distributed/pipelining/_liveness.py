"""How long activations live in a schedule, and which of them can share memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from ._actions import B, F, I, W, _Action


@dataclass(frozen=True)
class PipelineActivationLiveness:
    """Slots for the activations of a rank, as `analyze_pipeline_activation_liveness` assigns them.

    A slot is a number. Two activations with the same slot never live at the same time. So they can use one buffer that
    is large enough for both.

    Args:
        pp_rank: Rank in the group of the pipeline.
        granularity: `"stage_microbatch"` or `"microbatch"`.
        stage_indices: Stages whose activations have slots.
        num_microbatches: Number of microbatches.
        slot_by_stage_and_microbatch: Slot of each `(stage, microbatch)`.
        num_slots: Number of slots.
    """

    pp_rank: int
    granularity: Literal["microbatch", "stage_microbatch"]
    stage_indices: tuple[int, ...]
    num_microbatches: int
    slot_by_stage_and_microbatch: Mapping[tuple[int, int], int]
    num_slots: int
    _lives: Mapping[tuple[int, int], tuple[int, int]] = field(repr=False)

    def slot_for(self, stage_index: int, microbatch_index: int) -> int:
        """Return the slot of an activation.

        Args:
            stage_index: Stage.
            microbatch_index: Microbatch.

        Raises:
            ValueError: If the activation has none.
        """
        key = (stage_index, microbatch_index)
        if key not in self.slot_by_stage_and_microbatch:
            raise ValueError(f"No activation slot exists for stage {stage_index}, microbatch {microbatch_index}")
        return self.slot_by_stage_and_microbatch[key]

    def get_activation_lifetime(self, stage_index: int, microbatch_index: int) -> tuple[int, int]:
        """Return the first and the last place of the rank's row at which an activation lives.

        Args:
            stage_index: Stage.
            microbatch_index: Microbatch.

        Raises:
            ValueError: If the activation is not known.
        """
        key = (stage_index, microbatch_index)
        if key not in self._lives:
            raise ValueError(f"No activation lifetime exists for stage {stage_index}, microbatch {microbatch_index}")
        return self._lives[key]


def _slots(intervals: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Give each interval the lowest slot that is free at its start. Both ends belong to an interval.

    Returns:
        The slot of each interval, and the number of slots.
    """
    slots = [0] * len(intervals)
    busy: list[tuple[int, int]] = []  # Last place and slot.
    free: list[int] = []
    used = 0
    for start, index in sorted((interval, index) for index, interval in enumerate(intervals)):
        while busy and busy[0][0] < start[0]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, used)
            used += 1
        slots[index] = heapq.heappop(free)
        heapq.heappush(busy, (start[1], slots[index]))
    return slots, used


def _lifetimes(
    row: Iterable[_Action | None], stages: tuple[int, ...], microbatches: int
) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the first and last place of each activation in a row. Raise `ValueError` if there is not one of each."""
    places: dict[str, dict[tuple[int, int], int]] = {"forward": {}, "input backward": {}, "release action": {}}
    weights: set[tuple[int, int]] = set()
    names = {F: "forward", I: "input backward", B: "release action", W: "release action"}
    for place, action in enumerate(row):
        for part in () if action is None else action.parts:
            name = names.get(part.computation_type)
            if name is None or part.stage_index not in stages:
                continue
            if part.microbatch_index is None:
                raise ValueError(f"Compute action {part} has no microbatch index")
            if not 0 <= part.microbatch_index < microbatches:
                raise ValueError(f"Action {part} has a microbatch outside [0, {microbatches})")
            key = (part.stage_index, part.microbatch_index)
            if key in places[name]:
                raise ValueError(f"Activation lifetime {key} has multiple {name}s")
            places[name][key] = place
            if part.computation_type == W:
                weights.add(key)
    expected = {(stage, microbatch) for stage in stages for microbatch in range(microbatches)}
    starts, ends = places["forward"], places["release action"]
    for found, what in (
        (starts, "Forward actions do not match tracked activations"),
        (ends, "Backward release actions do not match tracked activations"),
    ):
        if found.keys() != expected:
            raise ValueError(
                f"{what}; missing={sorted(expected - found.keys())}, extra={sorted(found.keys() - expected)}"
            )
    if alone := weights - places["input backward"].keys():
        raise ValueError(f"Activation lifetimes have weight backward without input backward: {sorted(alone)}")
    for key in sorted(expected):
        if ends[key] < starts[key]:
            raise ValueError(f"Activation lifetime {key} ends before its forward")
    return {key: (starts[key], ends[key]) for key in sorted(expected)}


def analyze_pipeline_activation_liveness(
    schedule: Any, *, pp_rank: int, stage_indices: Sequence[int], granularity: Literal["microbatch", "stage_microbatch"]
) -> PipelineActivationLiveness:
    """Find out which activations of a rank never live at the same time.

    An activation lives from its forward to its full backward or weight backward. The gradients of the inputs alone do
    not end its life.

    Args:
        schedule: Schedule of several stages for each rank.
        pp_rank: Rank in the group of the pipeline. It may be another one than that of `schedule`.
        stage_indices: Stages of that rank.
        granularity: `"stage_microbatch"` for one slot for each activation, `"microbatch"` for one slot for all of
            the stages.

    Returns:
        The slots.

    Raises:
        ValueError: If an argument is not valid, or a stage is not on the rank.
    """
    if granularity not in ("microbatch", "stage_microbatch"):
        raise ValueError(f"Unsupported activation granularity: {granularity}")
    stages = tuple(stage_indices)
    if not stages:
        raise ValueError("stage_indices must not be empty")
    if len(set(stages)) != len(stages):
        raise ValueError("stage_indices must be unique")
    table = getattr(schedule, "pipeline_order_with_comms", None) or schedule.pipeline_order
    if pp_rank not in table:
        raise ValueError(f"Rank {pp_rank} is not present in the pipeline schedule")
    microbatches = schedule._n_microbatches
    lives = _lifetimes(table[pp_rank], stages, microbatches)
    if granularity == "microbatch":
        for microbatch in range(microbatches):
            keys = [(stage, microbatch) for stage in stages]
            whole = min(lives[key][0] for key in keys), max(lives[key][1] for key in keys)
            lives.update(dict.fromkeys(keys, whole))
        slots, count = _slots([lives[stages[0], index] for index in range(microbatches)])
        slot_of = {key: slots[key[1]] for key in lives}
    else:
        slots, count = _slots(list(lives.values()))
        slot_of = dict(zip(lives, slots))
    return PipelineActivationLiveness(
        pp_rank, granularity, stages, microbatches, MappingProxyType(slot_of), count, MappingProxyType(lives)
    )
