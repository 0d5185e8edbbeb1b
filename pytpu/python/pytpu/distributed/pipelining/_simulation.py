"""Simulation of a table: does every action get its input, and in how many steps."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterator

from ._actions import (
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
    B,
    F,
    I,
    W,
    _Action,
    _AnyTable,
    _ComputationType,
    _Table,
)

_StageToRank = Callable[[int], int]

# Distance to the stage on the other side, and the kind of the action there.
_PEERS = {SEND_F: (1, RECV_F), RECV_F: (-1, SEND_F), SEND_B: (-1, RECV_B), RECV_B: (1, SEND_B)}
_SENDS = {WAIT_SEND_F: SEND_F, WAIT_SEND_B: SEND_B}
_COMMUNICATION = frozenset((*_PEERS, *_SENDS))
_OF_STAGES = frozenset((UNSHARD, RESHARD, REDUCE_GRAD, WAIT_REDUCE_GRAD))  # Not of a microbatch.


def _peer(action: _Action) -> _Action:
    """Return the receive of a send, or the send of a receive."""
    distance, kind = _PEERS[action.computation_type]
    return _Action(action.stage_index + distance, kind, action.microbatch_index)


class _Progress:
    """Actions that all ranks have done, and what an action waits for.

    The model is strict: a receive waits until its send has started, and a wait for a send ends when the receive has
    started. A transport that has buffers is never stuck where this model goes on.

    Args:
        stage_to_rank: Rank of each stage.
        num_stages: Number of stages of the pipeline.
    """

    def __init__(self, stage_to_rank: _StageToRank, num_stages: int) -> None:
        self._stage_to_rank = stage_to_rank
        self._last = num_stages - 1
        self.done: set[_Action] = set()

    def record(self, action: _Action) -> list[_Action]:
        """Mark an action as done. Return the actions that others can wait for by it."""
        new = []
        for part in action.parts:
            new.append(part)
            if part.computation_type == B:
                new.append(part._replace(computation_type=I))
        self.done.update(new)
        return new

    def _input(self, action: _Action) -> _Action | None:
        """Return the action that hands over the input of `action`, or `None` if it needs none."""
        stage, kind, microbatch, _ = action
        if kind == F:
            return self._handed_over(action, -1, RECV_F, F) if stage > 0 else None
        if kind in (I, B):
            if stage == self._last:
                return _Action(stage, F, microbatch)
            return self._handed_over(action, 1, RECV_B, I)
        if kind == W:
            return _Action(stage, I, microbatch)
        if kind == SEND_F:
            return _Action(stage, F, microbatch)
        if kind == SEND_B:
            return _Action(stage, I, microbatch)
        if kind in (RECV_F, RECV_B):
            return _peer(action)
        if kind in _SENDS:
            return _peer(_Action(stage, _SENDS[kind], microbatch))
        return None

    def _handed_over(self, action: _Action, distance: int, receive: _ComputationType, local: _ComputationType):
        """Return the receive of an input, or the computation itself if it is on the same rank."""
        other = action.stage_index + distance
        if self._stage_to_rank(other) == self._stage_to_rank(action.stage_index):
            return _Action(other, local, action.microbatch_index)
        return _Action(action.stage_index, receive, action.microbatch_index)

    def waits_for(self, action: _Action) -> _Action | None:
        """Return an action that has to be done before `action`, or `None` if `action` can start."""
        before: set[_Action] = set()
        for part in action.parts:
            needed = self._input(part)
            if needed is not None and needed not in self.done and needed not in before:
                return needed
            before.add(part)
            if part.computation_type == B:
                before.add(part._replace(computation_type=I))
        return None


def _check_order_of_messages(table: _AnyTable, stage_to_rank: _StageToRank) -> None:
    """Raise `ValueError` if a rank does not receive from another rank what that rank sends, in the same order.

    Messages between two ranks have no other mark than their order.
    """
    sent: dict[tuple[int, int], list[_Action]] = defaultdict(list)
    received: dict[tuple[int, int], list[_Action]] = defaultdict(list)
    for rank, row in table.items():
        for action in row:
            if action is None or action.computation_type not in _PEERS:
                continue
            peer = _peer(action)
            other = stage_to_rank(peer.stage_index)
            if action.computation_type in (SEND_F, SEND_B):
                sent[rank, other].append(action)
            else:
                received[other, rank].append(peer)
    for source, target in sorted({*sent, *received}):
        sends, receives = sent[source, target], received[source, target]
        for place in range(max(len(sends), len(receives))):
            send = sends[place] if place < len(sends) else None
            receive = receives[place] if place < len(receives) else None
            if send == receive:
                continue
            raise ValueError(
                f"Schedule sends and receives in different orders: message {place} from rank {source} to rank {target} "
                f"is {'nothing' if send is None else send} at the sender, but rank {target} "
                f"{'receives nothing' if receive is None else f'expects {receive}'}"
            )


def _run(
    table: _AnyTable, stage_to_rank: _StageToRank, num_stages: int, may_start=None
) -> Iterator[tuple[int, _Action]]:
    """Yield `(rank, action)` in an order in which all ranks can do their rows. Raise `ValueError` at a deadlock.

    Args:
        table: Rows of all ranks.
        stage_to_rank: Rank of each stage.
        num_stages: Number of stages of the pipeline.
        may_start: Function of a rank and its next action, `False` if the rank has to wait. It is asked again after
            each action of any rank.
    """
    progress = _Progress(stage_to_rank, num_stages)
    rows = {rank: deque(action for action in table[rank] if action is not None) for rank in sorted(table)}
    ready = deque(rows)
    waiting: dict[_Action, list[int]] = defaultdict(list)
    held: list[int] = []
    while ready:
        rank = ready.popleft()
        row = rows[rank]
        while row:
            needed = progress.waits_for(row[0])
            if needed is not None:
                waiting[needed].append(rank)
                break
            if may_start is not None and not may_start(rank, row[0]):
                held.append(rank)
                break
            action = row.popleft()
            for new in progress.record(action):
                ready.extend(waiting.pop(new, ()))
            ready.extend(held)
            held.clear()
            yield rank, action
    if any(rows.values()):
        raise ValueError(f"Schedule is not progressing: {_stand(table, rows, progress, stage_to_rank)}")


def _stand(table: _AnyTable, rows, progress: _Progress, stage_to_rank: _StageToRank) -> str:
    """Say at which action each stuck rank stands, and what the action waits for."""
    said = []
    for rank, row in rows.items():
        if not row:
            continue
        place = sum(action is not None for action in table[rank]) - len(row)
        needed = progress.waits_for(row[0])
        if needed is None:
            said.append(f"rank {rank} may not start action {place}, {row[0]}")
            continue
        owner = stage_to_rank(needed.stage_index)
        said.append(f"rank {rank} stands at action {place}, {row[0]}, which waits for {needed} of rank {owner}")
    return "; ".join(said)


def _check_progress(table: _AnyTable, stage_to_rank: _StageToRank, num_stages: int) -> None:
    """Raise `ValueError` if a table with communication would stop, repeat an action or mix up messages."""
    for rank, row in table.items():
        seen: set[_Action] = set()
        for part in (part for action in row if action is not None for part in action.parts):
            if part.microbatch_index is None and part.computation_type not in _OF_STAGES:
                raise ValueError(f"Action {part} of rank {rank} has no microbatch")
            if part in seen and part.computation_type not in _OF_STAGES:
                raise ValueError(f"Rank {rank} has action {part} twice")
            seen.add(part)
    _check_order_of_messages(table, stage_to_rank)
    for _ in _run(table, stage_to_rank, num_stages):
        pass


def _in_steps(pipeline_order: _AnyTable, stage_to_rank: _StageToRank, num_stages: int) -> _Table:
    """Run a table in steps of one action for each rank, and return it with idle places.

    Args:
        pipeline_order: Rows with communication.
        stage_to_rank: Function from a stage to its rank.
        num_stages: Number of stages of the pipeline.

    Returns:
        The rows, with `None` at each step at which a rank could do nothing.

    Raises:
        ValueError: If no rank can go on. The error names the action of each rank and what it waits for.
    """
    progress = _Progress(stage_to_rank, num_stages)
    rows = {rank: deque(action for action in pipeline_order[rank] if action is not None) for rank in pipeline_order}
    rows = {rank: rows[rank] for rank in sorted(rows)}
    steps: _Table = {rank: [] for rank in rows}

    def start(rank: int) -> bool:
        if progress.waits_for(rows[rank][0]) is not None:
            return False
        action = rows[rank].popleft()
        steps[rank][-1] = action
        progress.record(action)
        return True

    while any(rows.values()):
        idle = []
        acting = [rank for rank in rows if rows[rank]]
        for rank in acting:
            steps[rank].append(None)
            if not start(rank):
                idle.append(rank)
        if len(idle) == len(acting):
            raise ValueError(f"Schedule is not progressing: {_stand(pipeline_order, rows, progress, stage_to_rank)}")
        # A rank may have been made ready by a rank after it in the same step.
        for rank in idle:
            start(rank)
    return steps


def _write_trace(schedule: _AnyTable, filename: str) -> None:
    """Write a table to `filename` as a trace for Chrome's viewer. Each action takes one unit of time."""
    events = [
        {
            "name": str(action),
            "cat": "communication" if action.computation_type in _COMMUNICATION else "computation",
            "ph": "X",
            "pid": rank,
            "tid": rank,
            "ts": step,
            "dur": 1,
        }
        for rank in sorted(schedule)
        for step, action in enumerate(schedule[rank])
        if action is not None
    ]
    with open(filename, "w") as file:
        json.dump({"traceEvents": events}, file)
