"""The rows of each schedule: which stage a rank computes at each place, and for which microbatch.

A row has computation only, and `None` where a rank has to be idle if all actions take the same time. `_lowering`
adds what moves between ranks. Nothing here depends on tensors, so a table of many ranks is made in one process.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from ._actions import OVERLAP_F_B, B, F, I, W, _Action, _ComputationType, _Table


class _Row:
    """A row in the making. It numbers the microbatches of each stage and kind.

    Args:
        idle: Number of idle places at the start.
    """

    def __init__(self, idle: int = 0) -> None:
        self.actions: list[_Action | None] = [None] * idle
        self._next: Counter[tuple[int, _ComputationType]] = Counter()

    def count(self, stage: int, kind: _ComputationType) -> int:
        """Return how many microbatches of `stage` have had `kind`."""
        return self._next[stage, kind]

    def take(self, stage: int, kind: _ComputationType) -> _Action:
        """Return `kind` of the next microbatch of `stage`. A full backward counts as both of its halves."""
        counted = (I, W) if kind == B else (kind,)
        action = _Action(stage, kind, self._next[stage, counted[0]])
        for half in counted:
            self._next[stage, half] += 1
        return action

    def add(self, *steps: tuple[int, _ComputationType]) -> None:
        """Append `(stage, kind)` of the next microbatches."""
        self.actions.extend(self.take(stage, kind) for stage, kind in steps)

    def idle(self, places: int) -> None:
        """Append idle places. A negative number appends none."""
        self.actions.extend([None] * places)


def _gpipe_row(rank: int, ranks: int, microbatches: int) -> list[_Action | None]:
    """All forwards, then all backwards (https://arxiv.org/abs/1811.06965)."""
    row = _Row(rank)
    row.add(*[(rank, F)] * microbatches)
    row.idle(3 * (ranks - 1 - rank))
    row.add(*[(rank, B)] * microbatches)
    return row.actions


def _one_forward_one_backward_row(rank: int, ranks: int, microbatches: int) -> list[_Action | None]:
    """One backward after each forward once the pipeline is full (https://arxiv.org/abs/1806.03377).

    This bounds the activations that a rank keeps.
    """
    row = _Row(rank)
    warmup = ranks - 1 - rank
    row.add(*[(rank, F)] * warmup)
    row.idle(2 * warmup)
    for _ in range(microbatches - warmup):
        row.add((rank, F), (rank, B))
    for _ in range(warmup):
        row.idle(1)
        row.add((rank, B))
    return row.actions


def _looped_bfs_row(rank: int, ranks: int, local_stages: int, microbatches: int) -> list[_Action | None]:
    """All microbatches of a stage before those of the rank's next stage (https://arxiv.org/abs/2211.05953)."""
    stages = range(rank, ranks * local_stages, ranks)
    row = _Row(rank)
    for stage in stages:
        row.add(*[(stage, F)] * microbatches)
    row.idle(2 * (ranks - 1 - rank))
    for stage in reversed(stages):
        row.actions.extend(_Action(stage, B, microbatch) for microbatch in reversed(range(microbatches)))
    return row.actions


def _rounds(stages: list[int], per_round: int, microbatches: int) -> Iterator[int]:
    """Yield the stages in the order in which a rank visits them: `per_round` microbatches of each, round by round."""
    for _ in range(microbatches // per_round):
        for stage in stages:
            yield from [stage] * per_round


def _microbatches_per_round(ranks: int, microbatches: int, name: str) -> int:
    """Return how many microbatches an interleaved schedule takes through a stage before the next stage."""
    rounds = max(1, microbatches // ranks)
    if microbatches % rounds:
        raise ValueError(
            f"{name} requires the number of microbatches to be a multiple of the number of rounds ({rounds}), "
            f"but got {microbatches}."
        )
    return microbatches // rounds


def _interleaved_row(rank: int, ranks: int, local_stages: int, microbatches: int, per_round: int):
    """One forward and one backward in turns, over several stages (https://arxiv.org/abs/2104.04473)."""
    stages = list(range(rank, ranks * local_stages, ranks))
    forwards = deque(_rounds(stages, per_round, microbatches))
    backwards = deque(_rounds(stages[::-1], per_round, microbatches))
    # The last rank runs all but its last stage before the first backward. Each rank before it is ahead by the way
    # there and back.
    warmup = min((local_stages - 1) * per_round + 2 * (ranks - 1 - rank), len(forwards))
    row = _Row(rank)
    for _ in range(warmup):
        row.add((forwards.popleft(), F))
    if warmup:
        row.idle(local_stages * ranks + 2 * (ranks - 1 - rank) - warmup - rank)
    while forwards:
        row.add((forwards.popleft(), F), (backwards.popleft(), B))
    while backwards:
        row.idle(1)
        row.add((backwards.popleft(), B))
    return row.actions


def _interleaved_zero_bubble_row(rank: int, ranks: int, local_stages: int, microbatches: int, per_round: int):
    """ZB-H1 of https://arxiv.org/abs/2401.10241: weight gradients run `rank` backwards later, in the bubbles."""
    stages = list(range(rank, ranks * local_stages, ranks))
    forwards = deque(_rounds(stages, per_round, microbatches))
    backwards = deque(_rounds(stages[::-1], per_round, microbatches))
    weights = backwards.copy()
    warmup = min((local_stages - 1) * per_round + (ranks - 1 - rank), len(forwards))
    row = _Row(rank)
    for _ in range(warmup):
        row.add((forwards.popleft(), F))
    if warmup:
        row.idle(ranks - 1 - rank)
    done = 0
    while backwards:
        if forwards:
            row.add((forwards.popleft(), F))
        row.add((backwards.popleft(), I))
        done += 1
        if done > rank:
            row.add((weights.popleft(), W))
    row.add(*[(stage, W) for stage in weights])
    return row.actions


def _with_bubbles(table: _Table) -> _Table:
    """Add an idle place wherever a forward stands at a step at which its input has not been computed."""
    done: set[_Action] = set()
    rows = {rank: deque(row) for rank, row in table.items()}
    spaced: _Table = {rank: [] for rank in table}
    while any(rows.values()):
        now: list[_Action] = []
        for rank, row in rows.items():
            if not row:
                continue
            action = row[0]
            if action is not None and action.computation_type == F and action.stage_index > 0:
                if action._replace(stage_index=action.stage_index - 1) not in done:
                    spaced[rank].append(None)
                    continue
            spaced[rank].append(row.popleft())
            if action is not None:
                now.append(action)
        if not now and all(not row or row[0] is not None for row in rows.values()):
            raise AssertionError("Malformed compute schedule, a forward never gets its input")
        done.update(now)
    return spaced


def _zbv_row(rank: int, ranks: int, microbatches: int) -> list[_Action | None]:
    """ZB-V of https://arxiv.org/abs/2401.10241: two stages on each rank, the second on the way back."""
    down, up = rank, 2 * ranks - 1 - rank
    # A short batch takes the row of a full pipeline, with idle places for the microbatches that it does not have.
    full = max(2 * ranks - 1, microbatches)
    row = _Row(rank)
    row.add(*[(down, F)] * (2 * (ranks - rank) - 1))
    for _ in range(rank):
        row.add((up, F), (down, F))
    for _ in range(ranks - rank):
        row.add((up, F), (up, I), (up, W))
    while row.count(up, F) < full:
        if row.count(down, F) < full:
            row.add((down, F))
        row.add((down, I), (down, W), (up, F), (up, I), (up, W))
    for _ in range(rank):
        row.add((down, I), (up, I))
    for _ in range(ranks - rank):
        row.add((down, I), (down, W))
    for stage in (up, down):
        row.add(*[(stage, W)] * (full - row.count(stage, W)))
    return [
        action if action is not None and (action.microbatch_index or 0) < microbatches else None
        for action in row.actions
    ]


def _dual_pipe_v_row(rank: int, ranks: int, microbatches: int) -> list[_Action | None]:
    """DualPipeV of https://github.com/deepseek-ai/DualPipe.

    The two stages of a rank compute a forward and a backward at one place, so that one of them can communicate while
    the other one computes.
    """
    down, up = rank, 2 * ranks - 1 - rank
    after = ranks - 1 - rank  # Ranks between this one and the turn of the V.
    row = _Row()
    late: deque[_Action] = deque()  # Weight gradients that have not run.

    def backward(stage: int, split: bool) -> None:
        action = row.take(stage, I if split else B)
        row.actions.append(action)
        if split:
            late.append(action._replace(computation_type=W))

    def weight() -> None:
        if late:
            row.actions.append(late.popleft())

    def overlap(forward: int, backward: int) -> None:
        row.actions.append(_Action(-1, OVERLAP_F_B, None, (row.take(forward, F), row.take(backward, B))))

    row.add(*[(down, F)] * (2 * after))
    for _ in range(rank + 1):
        row.add((down, F), (up, F))
    for _ in range(after):
        backward(up, split=True)
        weight()
        row.add((up, F))
    for index in range(microbatches - 2 * ranks + rank + 1):
        if index == 0 and after == 0:
            row.add((down, F), (up, B))  # The last rank has nothing to hide here.
        else:
            overlap(down, up)
        overlap(up, down)
    for _ in range(after):
        row.add((up, B))
        overlap(up, down)
    # From the middle of the drain on, backwards are split, and their weight halves fill the bubbles at the end.
    half, split = (rank + 1) // 2, False
    for index in range(rank + 1):
        split = split or (index == half and rank % 2 == 1)
        backward(up, split)
        split = split or (index == half and rank % 2 == 0)
        backward(down, split)
    for _ in range(after):
        weight()
        backward(down, split)
    for _ in range(rank + 1):
        weight()
    return row.actions
