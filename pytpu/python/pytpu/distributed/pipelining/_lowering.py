"""From rows of computation to rows that run: parameters to gather, gradients to reduce, messages and waits."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Literal

from ._actions import (
    RECV_B,
    RECV_F,
    REDUCE_GRAD,
    RESHARD,
    SEND_B,
    SEND_F,
    UNSHARD,
    WAIT_REDUCE_GRAD,
    B,
    F,
    I,
    W,
    _Action,
    _AnyTable,
    _as_text,
    _ComputationType,
)
from ._simulation import _SENDS, _peer, _run

_Ahead = Literal["full", "auto"] | tuple[int, ...]
_StageToRank = Callable[[int], int]
_Sent = tuple[_ComputationType, int, int | None]  # Kind, stage and microbatch of a send.
_WAITS = {send: wait for wait, send in _SENDS.items()}


def _stages_ahead(policy: _Ahead, ranks: int, most: int) -> tuple[int, ...]:
    """Return how many stages ahead each rank gathers parameters.

    Args:
        policy: `"full"` for `most` on all ranks, `"auto"` for two stages on rank 0 and one more on each further
            rank, or the numbers themselves.
        ranks: Number of ranks.
        most: Number of stages whose parameters may be whole at a time.

    Raises:
        ValueError: If a number is not an integer in `[1, most]`, or their count is not that of ranks.
    """

    def is_number(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1

    if not is_number(most):
        raise ValueError(f"max_active_stages must be a positive integer, got {most!r}")
    if policy in ("full", "auto"):
        first = most if policy == "full" else 2
        return tuple(min(first + rank, most) for rank in range(ranks))
    if not isinstance(policy, tuple):
        raise ValueError(f"unshard_lookahead must be 'full', 'auto', or a tuple of {ranks} integers, got {policy!r}")
    if len(policy) != ranks:
        raise ValueError(f"unshard_lookahead tuple length must equal the pipeline degree ({ranks}), got {len(policy)}")
    for rank, stages in enumerate(policy):
        if not is_number(stages) or stages > most:
            raise ValueError(
                f"unshard_lookahead[{rank}] must be an integer within [1, max_active_stages={most}], got {stages!r}"
            )
    return policy


def _upcoming(row: Sequence[_Action]) -> list[list[list[int]]]:
    """Return, for each place of a row, the stages from there on in the order of their next use, grouped by place."""
    following: list[list[int]] = []
    result = []
    for action in reversed(row):
        here = list(dict.fromkeys(part.stage_index for part in action.parts))
        later = ([stage for stage in group if stage not in here] for group in following)
        following = [here, *(group for group in later if group)]
        result.append(following)
    return result[::-1]


def _first(groups: list[list[int]], count: int) -> list[int]:
    """Return the first `count` stages of `groups`, and all stages of the last group that is used."""
    stages: list[int] = []
    for group in groups:
        if len(stages) >= count:
            break
        stages.extend(group)
    return stages


def _with_parameters(
    compute_actions: Sequence[_Action | None], max_active_stages: int = 3, *, unshard_lookahead: int | None = None
) -> list[_Action]:
    """Add `UNSHARD` before a stage is used, and `RESHARD` when other stages are next. Only FSDP stages act on them.

    Args:
        compute_actions: Row of computation.
        max_active_stages: Number of stages whose parameters may be whole at a time.
        unshard_lookahead: Number of different stages, from the present one on, that are gathered ahead. The default is
            `max_active_stages`.

    Raises:
        ValueError: If one place uses more than `max_active_stages` stages.
    """
    ahead = max_active_stages if unshard_lookahead is None else unshard_lookahead
    row = [action for action in compute_actions if action is not None]
    active: dict[int, None] = {}
    result: list[_Action] = []
    for action, upcoming in zip(row, _upcoming(row)):
        here = {part.stage_index for part in action.parts}
        if len(here) > max_active_stages:
            raise ValueError(
                f"Atomic action {action} requires {len(here)} stages, exceeding max_active_stages={max_active_stages}"
            )
        keep = _first(upcoming, max_active_stages)
        wanted = [stage for stage in _first(upcoming, ahead) if stage not in active]
        for stage in [stage for stage in active if stage not in keep]:
            del active[stage]
            result.append(_Action(stage, RESHARD))
        for stage in wanted:
            active[stage] = None
            result.append(_Action(stage, UNSHARD))
        result.append(action)
    result.extend(_Action(stage, RESHARD) for stage in active)
    return result


def _merged(compute_actions: Sequence[_Action | None]) -> list[_Action]:
    """Turn each backward of inputs that its backward of weights follows into a full backward. Drop idle places."""
    result: list[_Action] = []
    for action in compute_actions:
        if action is None:
            continue
        if action.computation_type == W and result and result[-1] == action._replace(computation_type=I):
            result[-1] = action._replace(computation_type=B)
        else:
            result.append(action)
    return result


def _with_reductions(
    actions: Sequence[_Action | None], n_microbatches: int, defer_reduce_grad_wait: bool = False
) -> list[_Action]:
    """Add `REDUCE_GRAD` after the last backward of each stage, and `WAIT_REDUCE_GRAD` for it.

    Args:
        actions: Row of a rank.
        n_microbatches: Number of microbatches.
        defer_reduce_grad_wait: Wait before the next reduction or at the end of the row, not at once.
    """
    result: list[_Action] = []
    backwards: Counter[int] = Counter()
    pending: _Action | None = None
    for action in actions:
        if action is None:
            continue
        result.append(action)
        for part in action.parts:
            if part.computation_type not in (W, B):
                continue
            backwards[part.stage_index] += 1
            if backwards[part.stage_index] != n_microbatches:
                continue
            if pending is not None:
                result.append(pending)
            result.append(_Action(part.stage_index, REDUCE_GRAD))
            pending = _Action(part.stage_index, WAIT_REDUCE_GRAD)
            if not defer_reduce_grad_wait:
                result.append(pending)
                pending = None
    if pending is not None:
        result.append(pending)
    return result


def _with_messages(
    compute_actions: _AnyTable, stage_to_rank: _StageToRank, num_stages: int
) -> dict[int, list[_Action]]:
    """Add a send after each action whose result another rank needs, and a receive in the row of that rank.

    The receive takes the place that the row of the other rank has reached at that moment. So both ranks have the
    messages between them in one order.

    Args:
        compute_actions: Rows without messages.
        stage_to_rank: Function from a stage to its rank.
        num_stages: Number of stages of the pipeline.

    Raises:
        AssertionError: If no rank can go on.
    """
    rows = {rank: deque(compute_actions[rank]) for rank in sorted(compute_actions)}
    result: dict[int, list[_Action]] = {rank: [] for rank in compute_actions}
    done: set[tuple[int, bool, int | None]] = set()  # Stage, whether forward, microbatch.

    def needs(action: _Action) -> tuple[int, bool, int | None] | None:
        stage, kind, microbatch, _ = action
        if kind == F and stage > 0:
            return stage - 1, True, microbatch
        if kind in (I, B) and stage < num_stages - 1:
            return stage + 1, False, microbatch
        return None

    def emit(rank: int, action: _Action) -> None:
        result[rank].append(action)
        for part in action.parts:
            stage, kind, microbatch, _ = part
            if kind not in (F, I, B):
                continue
            forward = kind == F
            done.add((stage, forward, microbatch))
            other = stage + 1 if forward else stage - 1
            if not 0 <= other < num_stages or stage_to_rank(other) == stage_to_rank(stage):
                continue
            send = _Action(stage, SEND_F if forward else SEND_B, microbatch)
            result[rank].append(send)
            result[stage_to_rank(other)].append(_peer(send))

    while any(rows.values()):
        progress = False
        for rank, row in rows.items():
            if not row:
                continue
            action = row[0]
            if action is not None:
                if any(needed is not None and needed not in done for needed in map(needs, action.parts)):
                    continue
                emit(rank, action)
            row.popleft()
            progress = True
        if not progress:
            stuck = "; ".join(f"rank {rank} cannot start {row[0]}" for rank, row in rows.items() if row)
            raise AssertionError(f"Malformed compute schedule, can't schedule sends/recvs: {stuck}")
    return result


def _send_key(action: _Action, what: str) -> _Sent:
    if action.microbatch_index is None:
        raise ValueError(f"{what} action {action} has no microbatch index")
    return _SENDS.get(action.computation_type, action.computation_type), action.stage_index, action.microbatch_index


def _wait_for(send: _Action) -> _Action:
    """Return the wait for a send."""
    return send._replace(computation_type=_WAITS[send.computation_type])


def _with_waits(comm_actions: dict[int, list[_Action]]) -> dict[int, list[_Action]]:
    """Add a wait for each send: that of a forward after the backward of the same microbatch, others at the end.

    The backward shows that the other rank has used the activation, so that its wait takes no time.
    """
    result: dict[int, list[_Action]] = {}
    for rank, row in comm_actions.items():
        pending: dict[_Sent, _Action] = {}
        waits: list[_Action] = []
        for action in row:
            waits.append(action)
            if action.computation_type in _WAITS:
                pending[_send_key(action, "Send")] = action
            for part in action.parts:
                if part.computation_type in (I, B):
                    send = pending.pop((SEND_F, part.stage_index, part.microbatch_index), None)
                    if send is not None:
                        waits.append(_wait_for(send))
        waits.extend(map(_wait_for, pending.values()))
        result[rank] = waits
    return result


def _check_waits(comm_actions: dict[int, list[_Action]]) -> None:
    """Raise `ValueError` unless each send is followed by one wait for it."""
    for rank, row in comm_actions.items():
        pending: dict[_Sent, _Action] = {}
        seen: set[_Sent] = set()
        for part in (part for action in row for part in action.parts):
            if part.computation_type in _WAITS:
                key = _send_key(part, "Send")
                if key in seen:
                    raise ValueError(f"Duplicate pipeline send {part} at rank {rank}")
                seen.add(key)
                pending[key] = part
            elif part.computation_type in _SENDS:
                if pending.pop(_send_key(part, "Wait"), None) is None:
                    raise ValueError(f"Pipeline wait {part} at rank {rank} has no pending send")
        if pending:
            sends = ", ".join(
                str(pending[key]) for key in sorted(pending, key=lambda key: (key[1], key[2], key[0].value))
            )
            raise ValueError(f"Pipeline sends at rank {rank} have no matching wait: {sends}")


def _with_few_sends(
    comm_actions: dict[int, list[_Action]], stage_to_rank: _StageToRank, max_outstanding_sends: int
) -> dict[int, list[_Action]]:
    """Move waits forward so that no rank has more than `max_outstanding_sends` sends that it has not waited for.

    All ranks are simulated. At a send that would exceed the limit, a rank waits for a pending send whose receive has
    started, and is held until there is one.

    Raises:
        ValueError: If the ranks cannot go on within the limit.
    """
    _check_waits(comm_actions)
    num_stages = 1 + max(part.stage_index for row in comm_actions.values() for action in row for part in action.parts)
    received: set[_Action] = set()
    pending: dict[int, list[_Action]] = {rank: [] for rank in comm_actions}
    moved: set[_Action] = set()
    result: dict[int, list[_Action]] = {rank: [] for rank in comm_actions}

    def may_start(rank: int, action: _Action) -> bool:
        if action.computation_type not in _WAITS or len(pending[rank]) < max_outstanding_sends:
            return True
        send = next((send for send in pending[rank] if _peer(send) in received), None)
        if send is None:
            return False
        pending[rank].remove(send)
        moved.add(_wait_for(send))
        result[rank].append(_wait_for(send))
        return True

    # A wait that was moved has no effect at its old place, so the rows without waits are simulated.
    rows = {
        rank: [action for action in row if action.computation_type not in _SENDS] for rank, row in comm_actions.items()
    }
    old = {rank: _waits_by_place(row) for rank, row in comm_actions.items()}
    places: Counter[int] = Counter()

    def wait_here(rank: int) -> None:
        for wait in old[rank][places[rank]]:
            if wait in moved:
                continue
            result[rank].append(wait)
            pending[rank].remove(wait._replace(computation_type=_SENDS[wait.computation_type]))

    try:
        for rank, action in _run(rows, stage_to_rank, num_stages, may_start):
            result[rank].append(action)
            places[rank] += 1
            if action.computation_type in _WAITS:
                pending[rank].append(action)
            elif action.computation_type in (RECV_F, RECV_B):
                received.add(action)
            wait_here(rank)
    except ValueError as error:
        sends = "; ".join(f"rank {rank}: [{', '.join(map(str, row))}]" for rank, row in pending.items() if row)
        raise ValueError(
            f"Cannot satisfy max_outstanding_sends={max_outstanding_sends}. {error}. Outstanding: {sends or 'none'}. "
            "Increase the limit or change the schedule."
        ) from error
    return result


def _waits_by_place(row: list[_Action]) -> dict[int, list[_Action]]:
    """Return the waits of a row, by the number of other actions before them."""
    waits: dict[int, list[_Action]] = defaultdict(list)
    others = 0
    for action in row:
        if action.computation_type in _SENDS:
            waits[others].append(action)
        else:
            others += 1
    return waits


def _with_late_receives(actions: dict[int, list[_Action]], stage_to_rank: _StageToRank) -> dict[int, list[_Action]]:
    """Move each receive to the action that uses it, so that a pending receive does not hold up other communication.

    Receives from one rank keep their order. A rank still receives from a higher rank before it sends to that rank, so
    that two ranks never both wait in a send.

    Raises:
        AssertionError: If the result of a receive is not used.
    """
    result: dict[int, list[_Action]] = {}
    for rank, row in actions.items():
        late: dict[_Action, int] = {}  # Receives that have not been placed, with the rank that sends.
        placed: list[_Action] = []

        def place(receive: _Action, late=late, placed=placed) -> None:
            if receive not in late:
                return
            # Messages from one rank arrive in the order in which it sends them, so earlier receives go first.
            source = late[receive]
            for earlier in [other for other, its_source in late.items() if its_source == source]:
                del late[earlier]
                placed.append(earlier)
                if earlier == receive:
                    break

        for action in row:
            if action.computation_type in (RECV_F, RECV_B):
                late[action] = stage_to_rank(_peer(action).stage_index)
                continue
            if action.computation_type in _WAITS:
                other = stage_to_rank(_peer(action).stage_index)
                if rank < other:
                    for receive in [receive for receive, source in late.items() if source == other]:
                        place(receive)
            for part in action.parts:
                if part.computation_type == F:
                    place(_Action(part.stage_index, RECV_F, part.microbatch_index))
                elif part.computation_type in (I, B):
                    place(_Action(part.stage_index, RECV_B, part.microbatch_index))
            placed.append(action)
        if late:
            raise AssertionError(
                f"Malformed input schedule on rank {rank}: leftover RECV ops with no consumer found: {list(late)}. "
                "Every RECV must be consumed by a downstream compute op."
            )
        result[rank] = placed
    return result


def _check_reductions(comm_actions: dict[int, list[_Action]]) -> None:
    """Raise `ValueError` unless each reduction is followed by its wait, with one pending at a time."""
    for rank, row in comm_actions.items():
        pending: int | None = None
        for stage, kind, _, _ in (part for action in row for part in action.parts):
            if kind == REDUCE_GRAD:
                if pending is not None:
                    raise ValueError(
                        f"Rank {rank} cannot start REDUCE_GRAD for stage {stage} while stage {pending} has a pending "
                        "reduction"
                    )
                pending = stage
            elif kind == WAIT_REDUCE_GRAD:
                if pending is None:
                    raise ValueError(f"Rank {rank} has WAIT_REDUCE_GRAD for stage {stage} without a pending reduction")
                if pending != stage:
                    raise ValueError(
                        f"Rank {rank} has WAIT_REDUCE_GRAD for stage {stage}, but stage {pending} has the pending "
                        "reduction"
                    )
                pending = None
        if pending is not None:
            raise ValueError(f"Stage {pending} at rank {rank} has REDUCE_GRAD without WAIT_REDUCE_GRAD")


# What has to come before a computation of the same stage and microbatch.
_BEFORE = {B: (F, "Full Backward", "Forward"), I: (F, "Backward Input", "Forward"),
           W: (I, "Backward Weight", "Backward Input")}  # fmt: skip


def _check_rows(actions: _AnyTable, pp_group_size: int, num_stages: int, num_microbatches: int) -> dict[int, int]:
    """Check that each stage is on one rank and computes each microbatch forward and backward, in this order.

    Args:
        actions: Rows of all ranks.
        pp_group_size: Number of ranks.
        num_stages: Number of stages.
        num_microbatches: Number of microbatches.

    Returns:
        The rank of each stage.

    Raises:
        AssertionError: If the check fails.
    """
    if len(actions) != pp_group_size:
        raise AssertionError(
            f"Schedule has incorrect number of ranks - expected {pp_group_size}, actual {len(actions)}"
        )
    for rank in range(pp_group_size):
        if rank not in actions:
            raise AssertionError(f"Schedule is missing actions for rank {rank}")
    done: dict[tuple[int, _ComputationType], set[int | None]] = defaultdict(set)
    stage_to_rank: dict[int, int] = {}
    for rank, row in actions.items():
        for step, action in enumerate(row):
            if action is None:
                continue
            if not isinstance(action, _Action):
                raise AssertionError(
                    f"Rank {rank}, step {step}: Got an invalid action: {action}, expected instance of _Action"
                )
            for stage, kind, microbatch, _ in action.parts:
                if kind in _BEFORE:
                    needed, name, before = _BEFORE[kind]
                    if microbatch not in done[stage, needed]:
                        raise AssertionError(
                            f"Rank {rank}, step {step}: Running {name} for stage {stage}, microbatch {microbatch} "
                            f"without first running {before}\n\nFull pipeline schedule:\n"
                            + _as_text(actions, error_step_number=step)
                        )
                done[stage, kind].add(microbatch)
                if stage_to_rank.setdefault(stage, rank) != rank:
                    raise AssertionError(
                        f"Rank {rank}, step {step}: Stage {stage} is assigned to both rank {rank} and rank "
                        f"{stage_to_rank[stage]}"
                    )
    for stage in range(num_stages):
        forward, full, inputs, weights = (len(done[stage, kind]) for kind in (F, B, I, W))
        if forward != num_microbatches:
            raise AssertionError(f"Got {forward} {F} microbatches for stage {stage}, expected {num_microbatches}")
        if inputs != weights:
            raise AssertionError(
                f"Invalid backward microbatches for stage {stage}: I and W must have equal counts, but got I={inputs}, "
                f"W={weights}"
            )
        if full + inputs != num_microbatches:
            raise AssertionError(
                f"Invalid backward microbatches for stage {stage}: expected {num_microbatches} total backwards, but "
                f"got B={full}, I={inputs}, W={weights}"
            )
    return stage_to_rank
