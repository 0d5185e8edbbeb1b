"""Tables of pipeline schedules: their rows, their lowering, and the check that no rank waits for ever."""

import hashlib
import json
import pathlib

import pytest

from pytpu.distributed.pipelining import _utils, schedules
from pytpu.distributed.pipelining._shapes import _ranks_of_stages, _stages_of_ranks
from pytpu.distributed.pipelining._simulation import _check_progress
from pytpu.distributed.pipelining.schedules import (
    OVERLAP_F_B,
    RECV_B,
    RECV_F,
    RESHARD,
    SEND_B,
    SEND_F,
    UNSHARD,
    WAIT_SEND_B,
    WAIT_SEND_F,
    B,
    F,
    I,
    PipelineScheduleMulti,
    W,
    _Action,
    _as_text,
    _check_reductions,
    _check_rows,
    _check_waits,
    _in_steps,
    _PipelineScheduleRuntime,
    _stages_ahead,
    _with_late_receives,
    _with_messages,
    _with_parameters,
    _with_reductions,
    _with_waits,
    _write_trace,
    analyze_pipeline_activation_liveness,
    get_schedule_class,
)

GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "goldens" / "pipelines.json").read_text())
SINGLE = ("GPipe", "1F1B")
MULTI = ("LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
OPTIONS = {
    "one_active": {"max_active_stages": 1},
    "auto": {"unshard_lookahead": "auto"},
    "late_reduction": {"defer_reduce_grad_wait": True},
}


class Numbers:
    """What a schedule asks of a stage when it makes its table."""

    def __init__(self, num_stages, group_size, rank=0):
        self.num_stages, self.group_size, self.group_rank = num_stages, group_size, rank


def make(name, ranks, local, microbatches, **options):
    stages = [Numbers(ranks * local, ranks) for _ in range(local)]
    return get_schedule_class(name)(stages if name in MULTI else stages[0], microbatches, loss_fn=len, **options)


def rows(*texts):
    return {rank: [_Action.from_str(cell) for cell in text.split(",")] for rank, text in enumerate(texts)}


def text(table):
    return "\n".join(
        ",".join("" if action is None else str(action) for action in table[rank]) for rank in sorted(table)
    )


def agrees(recorded, table):
    got = text(table)
    return recorded in (got, hashlib.sha256(got.encode()).hexdigest()[:12])


def possible(name):
    """Return the numbers for which PyTorch has a schedule."""
    cases = [key.split() for key in GOLDEN if key.split()[0] == name and "error" not in GOLDEN[key]]
    return [tuple(map(int, numbers)) for _, *numbers in cases]


@pytest.mark.parametrize("name", SINGLE + MULTI)
def test_tables_are_those_of_pytorch(name):
    checked = 0
    for key, recorded in GOLDEN.items():
        case, *numbers = key.split()
        ranks, local, microbatches = map(int, numbers)
        if case != name:
            continue
        checked += 1
        if "error" in recorded:
            with pytest.raises(ValueError) as found:
                make(name, ranks, local, microbatches)
            assert str(found.value) == recorded["error"]
            continue
        schedule = make(name, ranks, local, microbatches)
        order = dict(schedule.pipeline_order)
        if name == "1F1B":
            # PyTorch numbers the forwards of the last rank from 1 on in this table, which it does not run.
            order[ranks - 1] = [
                action._replace(microbatch_index=action.microbatch_index + 1)
                if action.computation_type == F
                else action
                for action in order[ranks - 1]
            ]
        assert agrees(recorded["order"], order), key
        if "lowered" in recorded:
            assert agrees(recorded["lowered"], schedule.pipeline_order_with_comms), key
        for option, arguments in OPTIONS.items():
            if option in recorded:
                lowered = make(name, ranks, local, microbatches, **arguments).pipeline_order_with_comms
                assert agrees(recorded[option], lowered), (key, option)
    assert checked > 30


@pytest.mark.parametrize("name", SINGLE + MULTI)
def test_no_schedule_waits_for_ever(name):
    for ranks, local, microbatches in possible(name):
        schedule = make(name, ranks, local, microbatches)
        style = "v" if name in ("ZBVZeroBubble", "DualPipeV") else "loop"
        ranks_of = _ranks_of_stages(ranks, ranks * local, style)
        _check_progress(schedule._rows(), ranks_of.__getitem__, ranks * local)


@pytest.mark.parametrize("name", MULTI)
@pytest.mark.parametrize("options", [{"defer_pp_recv": True}, {"max_outstanding_sends": 2}], ids=["late", "budget"])
def test_lowered_schedules_with_options_do_not_wait_for_ever(name, options):
    checked = 0
    for ranks, local, microbatches in possible(name):
        if microbatches > 8:
            continue
        try:
            schedule = make(name, ranks, local, microbatches, **options)
        except ValueError as error:
            assert "Cannot satisfy max_outstanding_sends=2" in str(error)
            continue
        checked += 1
        table = schedule.pipeline_order_with_comms
        _check_waits(table)
        _check_progress(table, schedule.stage_index_to_group_rank.__getitem__, ranks * local)
        if "max_outstanding_sends" in options:
            for row in table.values():
                outstanding = 0
                for action in row:
                    outstanding += action.computation_type in (SEND_F, SEND_B)
                    outstanding -= action.computation_type in (WAIT_SEND_F, WAIT_SEND_B)
                    assert outstanding <= 2
    assert checked > 5


def test_budget_of_no_sends_is_refused():
    with pytest.raises(ValueError, match="Cannot satisfy max_outstanding_sends=0.*rank 0 may not start action"):
        make("LoopedBFS", 2, 2, 2, max_outstanding_sends=0)
    for value in (-1, True, 1.5):
        with pytest.raises(ValueError, match="must be a non-negative integer"):
            make("LoopedBFS", 2, 2, 2, max_outstanding_sends=value)


def test_late_receives_keep_the_order_of_messages():
    """Rank 1 uses the gradient before the activation that was sent earlier."""
    table = rows("0F0,0SEND_F0,2F0,2B0,2SEND_B0", "1RECV_F0,1RECV_B0,1B0,1F0")
    late = _with_late_receives(table, lambda stage: stage % 2)
    assert text(late) == "0F0,0SEND_F0,2F0,2B0,2SEND_B0\n1RECV_F0,1RECV_B0,1B0,1F0"
    with pytest.raises(AssertionError, match="leftover RECV ops with no consumer found: .1RECV_F0."):
        _with_late_receives(rows("0F0", "1RECV_F0"), lambda stage: stage)


def test_late_receives_stand_before_their_use():
    table = rows("", "1RECV_F0,1RECV_F1,1F0,1F1")
    assert text(_with_late_receives({1: table[1]}, lambda stage: stage)) == "1RECV_F0,1F0,1RECV_F1,1F1"


def test_one_forward_one_backward_keeps_few_activations():
    schedule = make("1F1B", 4, 1, 16)
    for rank, row in schedule.pipeline_order.items():
        alive = most = 0
        for action in row:
            alive += (action.computation_type == F) - (action.computation_type == B)
            most = max(most, alive)
        assert most == 4 - rank


def test_zero_bubble_takes_fewer_steps_than_one_forward_one_backward():
    """A full backward is written as its halves here, so that both schedules do the same work."""

    def steps(name):
        table = {}
        for rank, row in make(name, 4, 1, 8).pipeline_order.items():
            table[rank] = []
            for action in row:
                if action is None or not action.is_compute_op:
                    continue
                kinds = (I, W) if action.computation_type == B else (action.computation_type,)
                table[rank].extend(action._replace(computation_type=kind) for kind in kinds)
        lowered = _with_messages(table, lambda stage: stage, 4)
        return max(map(len, _in_steps(lowered, lambda stage: stage, 4).values()))

    assert steps("InterleavedZeroBubble") < steps("1F1B")


def test_deadlock_names_rank_action_and_what_it_waits_for():
    table = rows("0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0", "1RECV_F0,1B0,1F0,1SEND_B0,1WAIT_SEND_B0")
    with pytest.raises(ValueError) as found:
        _check_progress(table, lambda stage: stage, 2)
    assert str(found.value) == (
        "Schedule is not progressing: rank 0 stands at action 2, 0RECV_B0, which waits for 1SEND_B0 of rank 1; "
        "rank 1 stands at action 1, 1B0, which waits for 1F0 of rank 1"
    )
    with pytest.raises(ValueError, match="rank 1 stands at action 1, 1B0, which waits for 1F0 of rank 1"):
        _in_steps(table, lambda stage: stage, 2)


def test_mixed_up_messages_are_found():
    sends = "0F0,0SEND_F0,0F1,0SEND_F1"
    with pytest.raises(ValueError, match="message 0 from rank 0 to rank 1 is 0SEND_F0.*rank 1 expects 0SEND_F1"):
        _check_progress(rows(sends, "1RECV_F1,1RECV_F0"), lambda stage: stage, 2)
    with pytest.raises(ValueError, match="message 1 from rank 0 to rank 1 is 0SEND_F1.*rank 1 receives nothing"):
        _check_progress(rows(sends, "1RECV_F0"), lambda stage: stage, 2)
    with pytest.raises(ValueError, match="message 0 from rank 0 to rank 1 is nothing.*rank 1 expects 0SEND_F0"):
        _check_progress(rows("0F0", "1RECV_F0"), lambda stage: stage, 2)


def test_rows_that_cannot_be_lowered_are_named():
    with pytest.raises(
        AssertionError, match="can't schedule sends/recvs: rank 0 cannot start 0B0; rank 1 cannot start 1F0"
    ):
        _with_messages(rows("0B0,0F0", "1F0,1B0"), lambda stage: stage, 3)


def test_actions_are_read_as_they_are_written():
    for spelling, action in (
        ("1F0", _Action(1, F, 0)),
        ("12I3", _Action(12, I, 3)),
        ("0W3", _Action(0, W, 3)),
        ("2B1", _Action(2, B, 1)),
        ("1UNSHARD", _Action(1, UNSHARD)),
        ("3RESHARD", _Action(3, RESHARD)),
        ("0WAIT_SEND_F7", _Action(0, WAIT_SEND_F, 7)),
        ("0RECV_B10", _Action(0, RECV_B, 10)),
        ("(0F4;3B1)OVERLAP_F_B", _Action(-1, OVERLAP_F_B, None, (_Action(0, F, 4), _Action(3, B, 1)))),
    ):
        assert _Action.from_str(f" {spelling} ") == action
        assert str(action) == repr(action) == spelling
    assert _Action.from_str("  ") is None
    with pytest.raises(RuntimeError, match="Invalid action string: F1, should be formatted as"):
        _Action.from_str("F1")
    with pytest.raises(RuntimeError, match="Invalid computation type NONE"):
        _Action.from_str("(0F0)NONE")


def test_table_as_text_marks_the_step_of_an_error():
    assert _as_text(rows("0F0,0B0", ",1F0,1B10"), error_step_number=1) == (
        "        Rank 0 Rank 1\nStep 0: 0F0          \nStep 1: 0B0    1F0    <-- ERROR HERE\nStep 2:        1B10  \n"
    )


def test_parameters_are_gathered_ahead():
    row = rows("0F0,0F1,,0B0,0B1")[0]
    assert text({0: _with_parameters(row)}) == "0UNSHARD,0F0,0F1,0B0,0B1,0RESHARD"
    row = rows("0F0,1F0,2F0,2B0,1B0,0B0")[0]
    assert text({0: _with_parameters(row, 1)}) == (
        "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1RESHARD,2UNSHARD,2F0,2B0,2RESHARD,1UNSHARD,1B0,1RESHARD,0UNSHARD,0B0,0RESHARD"
    )
    assert text({0: _with_parameters(row, 3, unshard_lookahead=1)}) == (
        "0UNSHARD,0F0,1UNSHARD,1F0,2UNSHARD,2F0,2B0,2RESHARD,1B0,1RESHARD,0B0,0RESHARD"
    )
    overlap = [_Action.from_str("(0F0;1B0)OVERLAP_F_B")]
    with pytest.raises(ValueError, match="requires 2 stages, exceeding max_active_stages=1"):
        _with_parameters(overlap, 1)


def test_lookahead_is_one_number_for_each_rank():
    assert _stages_ahead("full", 3, 2) == (2, 2, 2)
    assert _stages_ahead("auto", 3, 3) == (2, 3, 3)
    assert _stages_ahead((1, 2), 2, 2) == (1, 2)
    for value, message in (
        ("half", "must be 'full', 'auto', or a tuple of 2 integers"),
        ((1,), "tuple length must equal the pipeline degree .2., got 1"),
        ((1, 3), r"unshard_lookahead\[1\] must be an integer within \[1, max_active_stages=2\], got 3"),
        ((True, 1), r"unshard_lookahead\[0\] must be"),
    ):
        with pytest.raises(ValueError, match=message):
            _stages_ahead(value, 2, 2)
    with pytest.raises(ValueError, match="max_active_stages must be a positive integer, got 0"):
        _stages_ahead("full", 2, 0)


def test_gradients_are_reduced_after_the_last_backward_of_a_stage():
    row = rows("0F0,1F0,1B0,0I0,0W0")[0]
    assert text({0: _with_reductions(row, 1)}) == (
        "0F0,1F0,1B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,0I0,0W0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD"
    )
    late = {0: _with_reductions(row, 1, defer_reduce_grad_wait=True)}
    assert text(late) == "0F0,1F0,1B0,1REDUCE_GRAD,0I0,0W0,1WAIT_REDUCE_GRAD,0REDUCE_GRAD,0WAIT_REDUCE_GRAD"
    _check_reductions(late)
    for wrong, message in (
        ("0REDUCE_GRAD,1REDUCE_GRAD", "cannot start REDUCE_GRAD for stage 1 while stage 0 has a pending reduction"),
        ("0WAIT_REDUCE_GRAD", "has WAIT_REDUCE_GRAD for stage 0 without a pending reduction"),
        ("0REDUCE_GRAD,1WAIT_REDUCE_GRAD", "for stage 1, but stage 0 has the pending reduction"),
        ("0REDUCE_GRAD", "Stage 0 at rank 0 has REDUCE_GRAD without WAIT_REDUCE_GRAD"),
    ):
        with pytest.raises(ValueError, match=message):
            _check_reductions(rows(wrong))


def test_backwards_in_a_row_are_merged():
    row = rows("0I0,,0W0,0I1,1W1,0I2,0W3,0W2,0B4")[0]
    assert ",".join(map(str, schedules._merge_bw(row))) == "0B0,0I1,1W1,0I2,0W3,0W2,0B4"


def test_functions_of_tables_have_names_of_pytorch():
    names = "_add_reduce_grad _add_send_recv _add_unshard_reshard _format_pipeline_order _validate_schedule"
    assert all(callable(getattr(schedules, name)) for name in names.split())
    assert _utils.generate_stage_to_rank_mapping(2, 4, style="v") == {0: 0, 1: 1, 2: 1, 3: 0}
    assert _utils.generate_rank_to_stage_mapping(2, 4) == {0: [0, 2], 1: [1, 3]}
    table = schedules._add_send_recv(rows("0F0,0B0", "1F0,1B0"), lambda stage: stage, 2)
    steps = schedules._simulate_comms_compute(table, stage_to_rank=lambda stage: stage, num_stages=2)
    assert [[*map(str, filter(None, row))] for row in steps.values()] == [
        ["0F0", "0SEND_F0", "0RECV_B0", "0B0"],
        ["1RECV_F0", "1F0", "1B0", "1SEND_B0"],
    ]


def test_every_send_has_one_wait():
    waits = _with_waits(rows("0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"))
    assert text(waits) == "0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0"
    _check_waits(waits)
    for wrong, message in (
        ("0SEND_F0", "Pipeline sends at rank 0 have no matching wait: 0SEND_F0"),
        ("0WAIT_SEND_F0,0SEND_F0", "Pipeline wait 0WAIT_SEND_F0 at rank 0 has no pending send"),
        ("0SEND_F0,0SEND_F0", "Duplicate pipeline send 0SEND_F0 at rank 0"),
        ("0SEND_F", "has no microbatch index"),
    ):
        with pytest.raises(ValueError, match=message):
            _check_waits(rows(wrong))


def test_wrong_tables_are_refused():
    for wrong, ranks, message in (
        (("0F0,0B0",), 2, "incorrect number of ranks - expected 2, actual 1"),
        (("0B0,0F0",), 1, "Rank 0, step 0: Running Full Backward for stage 0, microbatch 0 without first running F"),
        (("0I0",), 1, "Running Backward Input for stage 0, microbatch 0 without first running Forward"),
        (("0F0,0W0",), 1, "Running Backward Weight for stage 0, microbatch 0 without first running Backward Input"),
        (("0F0,0B0", "0F0"), 2, "Rank 1, step 0: Stage 0 is assigned to both rank 1 and rank 0"),
        (("0F0,0I0",), 1, "I and W must have equal counts, but got I=1, W=0"),
        (("0F0",), 1, "expected 1 total backwards, but got B=0, I=0, W=0"),
        (("",), 1, "Got 0 .* microbatches for stage 0, expected 1"),
    ):
        with pytest.raises(AssertionError, match=message):
            _check_rows(rows(*wrong), ranks, 1, 1)
    with pytest.raises(AssertionError, match="missing actions for rank 0"):
        _check_rows({1: []}, 1, 1, 1)
    with pytest.raises(AssertionError, match="Got an invalid action: 0F0"):
        _check_rows({0: ["0F0"]}, 1, 1, 1)


def test_tables_are_written_and_read(tmp_path):
    schedule = make("DualPipeV", 2, 2, 4)
    for kind in ("compute_only", "compute_comms"):
        path = tmp_path / f"{kind}.csv"
        schedule._dump_csv(path, format=kind)
        loaded = _PipelineScheduleRuntime([Numbers(4, 2) for _ in range(2)], 4, loss_fn=len)
        loaded._load_csv(path, format=kind)
        assert loaded.pipeline_order_with_comms == schedule.pipeline_order_with_comms
        assert loaded.stage_index_to_group_rank == {0: 0, 1: 1, 2: 1, 3: 0}
    plain = PipelineScheduleMulti([Numbers(4, 2) for _ in range(2)], 4, loss_fn=len)
    plain._load_csv(tmp_path / "compute_only.csv")
    plain._dump_csv(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "compute_only.csv").read_text()
    with pytest.raises(AssertionError, match="format must be"):
        plain._load_csv(tmp_path / "again.csv", format="compute_comms")
    with pytest.raises(NotImplementedError, match="is not implemented"):
        schedule._load_csv(tmp_path / "again.csv", format="words")
    with pytest.raises(ValueError, match="found communication action '0UNSHARD' at rank 0, position 0"):
        schedule._set_table(schedule.pipeline_order_with_comms)


def test_trace_for_the_viewer(tmp_path):
    schedule = make("Interleaved1F1B", 2, 2, 4)
    simulated = schedule._steps()
    assert {rank: [action for action in row if action is not None] for rank, row in simulated.items()} == (
        schedule.pipeline_order_with_comms
    )
    _write_trace(simulated, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(events) == sum(map(len, schedule.pipeline_order_with_comms.values()))
    assert {event["cat"] for event in events} == {"computation", "communication"}


def test_names_of_schedules_have_any_case():
    assert get_schedule_class("interleaved1f1b").__name__ == "ScheduleInterleaved1F1B"
    with pytest.raises(ValueError, match="Unknown schedule name '2F2B'. The valid options are .'1F1B'"):
        get_schedule_class("2F2B")


def test_stages_are_placed_in_a_loop_or_a_v():
    assert _stages_of_ranks(2, 4) == {0: [0, 2], 1: [1, 3]}
    assert _stages_of_ranks(2, 4, style="v") == {0: [0, 3], 1: [1, 2]}
    assert _ranks_of_stages(2, 6, style="v") == {0: 0, 1: 1, 2: 1, 3: 0, 4: 0, 5: 1}


@pytest.mark.parametrize("name", MULTI)
@pytest.mark.parametrize("granularity", ["microbatch", "stage_microbatch"])
def test_activations_with_one_slot_never_live_together(name, granularity):
    schedule = make(name, 2, 2, 8)
    for rank in range(2):
        stages = [stage for stage, place in schedule.stage_index_to_group_rank.items() if place == rank]
        plan = analyze_pipeline_activation_liveness(
            schedule, pp_rank=rank, stage_indices=stages, granularity=granularity
        )
        lives = {}
        for stage in stages:
            for microbatch in range(8):
                key = (stage, microbatch) if granularity == "stage_microbatch" else microbatch
                lives[key] = plan.slot_for(stage, microbatch), plan.get_activation_lifetime(stage, microbatch)
        intervals = sorted(lives.values())
        for (slot, (_, end)), (next_slot, (start, _)) in zip(intervals, intervals[1:]):
            assert slot != next_slot or end < start
        # No plan can do with fewer slots than activations that live at one place.
        places = range(len(schedule.pipeline_order_with_comms[rank]))
        most = max(sum(start <= place <= end for _, (start, end) in intervals) for place in places)
        assert plan.num_slots == most
        assert 0 < plan.num_slots <= len(lives)


def test_liveness_refuses_what_is_not_there():
    schedule = make("ZBVZeroBubble", 2, 2, 4)
    ask = lambda **words: analyze_pipeline_activation_liveness(
        schedule, **{"pp_rank": 0, "stage_indices": (0, 3), "granularity": "microbatch", **words}
    )
    plan = ask()
    assert plan.num_microbatches == 4
    for call, message in (
        (lambda: ask(granularity="layer"), "Unsupported activation granularity: layer"),
        (lambda: ask(stage_indices=()), "must not be empty"),
        (lambda: ask(stage_indices=(0, 0)), "must be unique"),
        (lambda: ask(pp_rank=2), "Rank 2 is not present"),
        (lambda: ask(stage_indices=(1,)), "Forward actions do not match tracked activations"),
        (lambda: plan.slot_for(1, 0), "No activation slot exists for stage 1, microbatch 0"),
        (lambda: plan.get_activation_lifetime(0, 9), "No activation lifetime exists for stage 0, microbatch 9"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_custom_functions_replace_kinds_of_computation_only():
    schedule = make("DualPipeV", 2, 2, 4)
    schedule.register_custom_function(OVERLAP_F_B, print)
    with pytest.raises(ValueError, match="Invalid computation type"):
        schedule.register_custom_function(RECV_F, print)
