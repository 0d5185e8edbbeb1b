"""Every schedule gives the losses and gradients of the undivided model. Ranks are threads."""

import copy
import re
import warnings

import pytest
from pipeline_ranks import run_ranks

import pytpu as torch
from pytpu import nn
from pytpu.distributed.fsdp import FSDPModule
from pytpu.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
    _ScheduleForwardOnly,
)
from pytpu.distributed.pipelining._shapes import PipeliningMetadataError, _stages_of_ranks
from pytpu.distributed.pipelining.schedules import (
    OVERLAP_F_B,
    PipelineScheduleMulti,
    PipelineScheduleSingle,
    _Action,
    _PipelineScheduleRuntime,
    get_schedule_class,
)

SINGLE = ("GPipe", "1F1B")
V = ("ZBVZeroBubble", "DualPipeV")
mse = nn.functional.mse_loss


class Block(nn.Module):
    """A layer whose backward needs its input, its output and two weights."""

    def __init__(self, width=6):
        super().__init__()
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, scale=1.0):
        return self.norm(x + self.outer(torch.tanh(self.inner(x)))) * scale


def blocks(count, device="cpu"):
    return [Block().to(device) for _ in range(count)]


def gradients(parts):
    return [parameter.grad for part in parts for parameter in part.parameters()]


def check_close(got, want, tolerance=1e-6):
    assert len(got) == len(want)
    for one, other in zip(got, want):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def whole_step(parts, x, y, loss_fn=mse):
    """Return output, loss and gradients of the undivided model."""
    model = copy.deepcopy(nn.Sequential(*parts))
    output = model(x)
    loss = loss_fn(output, y)
    loss.backward()
    return output.detach(), loss.detach(), gradients(model)


def run_pipeline(name, parts, ranks, microbatches, x, y, steps=1, loss_fn=mse, static=None, **options):
    """Run steps of a pipeline. Return its output and its losses."""
    make = get_schedule_class(name) if isinstance(name, str) else name
    stages_of = _stages_of_ranks(ranks, len(parts), "v" if name in V else "loop")
    device = next(parts[0].parameters()).device

    def body(transport):
        mine = stages_of[transport.rank]
        examples = {} if static is None else {"input_args": static, "output_args": static}
        stages = [PipelineStage(parts[i], i, len(parts), device, group=transport, **examples) for i in mine]
        schedule = make(stages[0] if name in SINGLE else stages, microbatches, loss_fn=loss_fn, **options)
        output = losses = None
        for _ in range(steps):
            for stage in stages:
                stage.submod.zero_grad()
            losses = []
            output = schedule.step(
                *((x,) if stages[0].is_first else ()), target=y if stages[-1].is_last else None, losses=losses
            )
        return output, losses

    results = run_ranks(ranks, body)
    found = [result for result in results if result[0] is not None]
    assert len(found) == 1
    return found[0]


CASES = [
    ("GPipe", 1, 1, 3),
    ("GPipe", 3, 1, 4),
    ("1F1B", 1, 1, 2),
    ("1F1B", 4, 1, 6),
    ("LoopedBFS", 2, 1, 2),
    ("LoopedBFS", 2, 3, 4),
    ("Interleaved1F1B", 2, 2, 4),
    ("Interleaved1F1B", 4, 2, 8),
    ("Interleaved1F1B", 4, 2, 3),
    ("InterleavedZeroBubble", 1, 1, 2),
    ("InterleavedZeroBubble", 2, 2, 4),
    ("InterleavedZeroBubble", 4, 1, 8),
    ("ZBVZeroBubble", 1, 2, 2),
    ("ZBVZeroBubble", 2, 2, 3),
    ("ZBVZeroBubble", 4, 2, 9),
    ("DualPipeV", 1, 2, 4),
    ("DualPipeV", 2, 2, 4),
    ("DualPipeV", 4, 2, 10),
]


@pytest.mark.parametrize("static", [False, True], ids=["inferred", "examples"])
@pytest.mark.parametrize(("name", "ranks", "local", "microbatches"), CASES)
def test_schedules_give_the_gradients_of_the_undivided_model(name, ranks, local, microbatches, static):
    parts = blocks(ranks * local)
    x, y = torch.randn(microbatches * 2, 6), torch.randn(microbatches * 2, 6)
    want_output, want_loss, want_grads = whole_step(parts, x, y)
    examples = torch.empty(2, 6) if static else None
    output, losses = run_pipeline(name, parts, ranks, microbatches, x, y, steps=2, static=examples)
    check_close([output, torch.stack(losses).mean()], [want_output, want_loss])
    check_close(gradients(parts), want_grads)


@pytest.mark.parametrize(("name", "local"), [("1F1B", 1), ("InterleavedZeroBubble", 1), ("ZBVZeroBubble", 2)])
def test_schedules_on_the_accelerator(name, local):
    parts = blocks(2 * local, "tpu")
    x, y = torch.randn(6, 6, device="tpu"), torch.randn(6, 6, device="tpu")
    want_output, want_loss, want_grads = whole_step(parts, x, y)
    output, losses = run_pipeline(name, parts, 2, 3 if name != "InterleavedZeroBubble" else 2, x, y)
    check_close([output.cpu(), torch.stack(losses).mean().cpu()], [want_output.cpu(), want_loss.cpu()])
    check_close([grad.cpu() for grad in gradients(parts)], [grad.cpu() for grad in want_grads])


@pytest.mark.parametrize(
    "options", [{"defer_pp_recv": True}, {"max_outstanding_sends": 2}, {"defer_reduce_grad_wait": True}], ids=str
)
@pytest.mark.parametrize("name", ["Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"])
def test_options_do_not_change_gradients(name, options):
    parts = blocks(4)
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    _, _, want = whole_step(parts, x, y)
    run_pipeline(name, parts, 2, 4, x, y, **options)
    check_close(gradients(parts), want)


def test_sums_of_losses_are_not_scaled():
    parts = blocks(2)
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    loss_fn = nn.MSELoss(reduction="sum")
    _, want_loss, want = whole_step(parts, x, y, loss_fn)
    _, losses = run_pipeline("GPipe", parts, 2, 2, x, y, loss_fn=loss_fn, scale_grads=False)
    check_close([sum(losses)], [want_loss])
    check_close(gradients(parts), want, 1e-5)


class Two(nn.Module):
    """A stage with two inputs and two outputs. One of them is an integer, and one input may have no effect."""

    def __init__(self, uses_b=True):
        super().__init__()
        self.w = nn.Linear(6, 6)
        self.uses_b = uses_b

    def forward(self, a, b, index):
        return self.w(a) + (b if self.uses_b else 0), b * 2, index + 1


class TwoFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(6, 6)

    def forward(self, x):
        return self.w(x), torch.sin(x) * self.w.bias, torch.arange(x.shape[0])


class TwoLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Embedding(16, 6)

    def forward(self, a, b, index):
        return a * self.w(index)


@pytest.mark.parametrize("name", ["1F1B", "InterleavedZeroBubble"])
def test_stages_exchange_tuples_with_integers_and_unused_values(name):
    parts = [TwoFirst(), Two(), Two(uses_b=False), TwoLast()]
    whole = copy.deepcopy(parts)
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    losses_of_pieces = []
    for piece, target in zip(x.chunk(4), y.chunk(4)):
        values = whole[0](piece)
        for part in whole[1:3]:
            values = part(*values)
        losses_of_pieces.append(mse(whole[3](*values), target))
    (sum(losses_of_pieces) / 4).backward()
    _, losses = run_pipeline(name, parts, 4, 4, x, y)
    check_close(losses, [loss.detach() for loss in losses_of_pieces])
    check_close(gradients(parts), gradients(whole))


def test_keyword_arguments_go_to_the_stages_of_their_rank():
    parts = blocks(2)
    x, y, scale = torch.randn(4, 6), torch.randn(4, 6), torch.randn(4, 1)
    whole = copy.deepcopy(parts)
    mse(whole[1](whole[0](x), scale=scale), y).backward()

    def body(transport):
        stage = PipelineStage(parts[transport.rank], transport.rank, 2, "cpu", group=transport)
        schedule = ScheduleGPipe(stage, 2, loss_fn=mse)
        schedule.step(x) if stage.is_first else schedule.step(target=y, scale=scale)

    run_ranks(2, body)
    check_close(gradients(parts), gradients(whole))


def test_microbatches_that_are_split_already():
    parts = blocks(2)
    x, y = torch.randn(5, 6), torch.randn(5, 6)
    loss_fn = nn.MSELoss(reduction="sum")
    _, _, want = whole_step(parts, x, y, loss_fn)

    def body(transport):
        stage = PipelineStage(parts[transport.rank], transport.rank, 2, "cpu", group=transport)
        schedule = Schedule1F1B(stage, 5, loss_fn=loss_fn, scale_grads=False)
        if stage.is_first:
            return schedule.step(arg_mbs=[(row[None],) for row in x])
        return schedule.step(target_mbs=[row[None] for row in y])

    output = run_ranks(2, body)[1]
    assert output.shape == (5, 6)
    check_close(gradients(parts), want, 1e-5)


def single(module=None, count=2, **options):
    stage = PipelineStage(module or Block(), 0, 1, "cpu", group=alone())
    return ScheduleGPipe(stage, count, **options)


def alone():
    """Return the transport of a pipeline with one rank."""
    return run_ranks(1, lambda transport: transport)[0]


def test_wrong_arguments_of_a_step():
    schedule = single(loss_fn=mse)
    x = torch.randn(4, 6)
    for call, error, message in (
        (lambda: schedule.step(arg_mbs=((x,), (x,)), target_mbs=[x, x]), TypeError, "arg_mbs must be a list but got a"),
        (lambda: schedule.step(arg_mbs=[(x,)]), ValueError, "Expecting 2 arg_mbs but got 1"),
        (lambda: schedule.step(arg_mbs=[x, x]), TypeError, r"arg_mbs must be a list of tuples, but arg_mbs\[0\] is a"),
        (lambda: schedule.step(kwarg_mbs=[{}, 1]), TypeError, r"kwarg_mbs must be a list of dicts, but kwarg_mbs\[1\]"),
        (lambda: schedule.step(x, target_mbs=[x, x]), ValueError, "through arg_mbs=... instead of positional args"),
        (lambda: schedule.step(scale=1, target_mbs=[x, x]), ValueError, "Unexpected keyword arguments .*: scale"),
        (lambda: schedule.step(arg_mbs=[(x,)] * 2, target=x), ValueError, "through target_mbs=... instead of target"),
        (lambda: schedule.step(x, target=x, losses=()), TypeError, "losses must be a list but got a <class 'tuple'>"),
        (lambda: schedule.step(x), ValueError, "the last stage needs a target: the schedule has a loss function"),
        (lambda: schedule.step(target=x), TypeError, "missing 1 required positional argument"),
    ):
        with pytest.raises(error, match=message):
            call()
    with torch.no_grad(), pytest.raises(RuntimeError, match="should not be used under torch.no_grad"):
        schedule.step(x, target=x)


def test_eval_runs_forward_only():
    parts = blocks(4)
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    want = nn.Sequential(*parts)(x)
    want_loss = mse(want, y)
    stages_of = _stages_of_ranks(2, 4, "v")

    def body(transport):
        stages = [PipelineStage(parts[i], i, 4, "cpu", group=transport) for i in stages_of[transport.rank]]
        schedule = ScheduleDualPipeV(stages, 4, loss_fn=mse)
        args = (x,) if transport.rank == 0 else ()
        target = y if transport.rank == 0 else None
        losses = []
        with torch.no_grad():
            first = schedule.eval(*args, target=target, losses=losses)
            again = schedule.eval(*args)
        assert all(grad is None for grad in gradients(parts[i] for i in stages_of[transport.rank]))
        schedule.step(*args, target=target)
        after = schedule.eval(*args)
        return first, again, after, losses

    results = run_ranks(2, body)
    first, again, after, losses = results[0]
    assert results[1] == (None, None, None, [])
    check_close([first, again, after.detach()], [want.detach()] * 3)
    check_close([torch.stack(losses).mean()], [want_loss.detach()])
    assert all(grad is not None for grad in gradients(parts))


def test_a_schedule_without_a_loss_runs_forward_only():
    parts = blocks(3)
    x = torch.randn(4, 6)
    want = nn.Sequential(*parts)(x)

    def body(transport):
        stage = PipelineStage(parts[transport.rank], transport.rank, 3, "cpu", group=transport)
        return Schedule1F1B(stage, 4).step(*((x,) if stage.is_first else ()))

    check_close([run_ranks(3, body)[2].detach()], [want.detach()])
    assert all(grad is None for grad in gradients(parts))


def test_finding_out_shapes_leaves_buffers_and_generators():
    parts = [nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.5)), nn.BatchNorm1d(6)]
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    whole = copy.deepcopy(parts)
    torch.manual_seed(3)
    with torch.no_grad():
        want = torch.cat([whole[1](whole[0](piece)) for piece in x.chunk(2)])
    torch.manual_seed(3)

    def body(transport):
        schedule = ScheduleInterleaved1F1B(
            [PipelineStage(parts[i], i, 2, "cpu", group=transport) for i in range(2)], 2, loss_fn=mse
        )
        return schedule.step(x, target=y)

    check_close([run_ranks(1, body)[0].detach()], [want])
    assert parts[0][1].num_batches_tracked == 2
    check_close([parts[1].running_mean], [whole[1].running_mean])


def test_examples_that_do_not_fit_are_warned_of():
    def body(transport):
        wrong = {"output_args": torch.empty(3, 6)} if transport.rank == 0 else {}
        stage = PipelineStage(Block(), transport.rank, 2, "cpu", group=transport, **wrong)
        schedule = ScheduleGPipe(stage, 2)
        schedule.step(*((torch.randn(4, 6),) if stage.is_first else ()))

    message = r"Stage 0 output\[0\]: the example has shape \(3, 6\) .*, the tensor has shape \(2, 6\) "
    with pytest.warns(UserWarning, match=message):
        run_ranks(2, body)


def test_microbatches_of_different_shapes_are_refused():
    def body(transport):
        stage = PipelineStage(Block(), transport.rank, 2, "cpu", group=transport)
        schedule = ScheduleGPipe(stage, 2)
        if stage.is_first:
            with pytest.raises(PipeliningMetadataError, match=re.escape("[Stage 0] output of microbatch 1, tensor 0")):
                schedule.step(torch.randn(5, 6))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_only_first(body)


def run_only_first(body):
    """Run a body whose second rank only takes part in the vote."""

    def both(transport):
        if transport.rank == 1:
            transport.all(False)
        else:
            body(transport)

    run_ranks(2, both)


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 2:
            raise KeyError("no such layer")
        return x


def test_errors_name_stage_and_microbatch(caplog):
    schedule = single(Broken())
    with pytest.raises(
        RuntimeError, match=r"\[Stage 0\] failed to run forward of microbatch 1: 'no such layer'"
    ) as found:
        schedule.step(torch.randn(4, 6))
    assert isinstance(found.value.__cause__, KeyError)
    assert "args: shape (2, 6) and dtype torch.float32\n" in str(found.value)
    assert "Step 1: 0F1    <-- ERROR HERE" in caplog.text


def test_tables_that_never_end_are_refused_before_they_run():
    class Late(PipelineScheduleSingle):
        def _table(self):
            return {0: [_Action.from_str(text) for text in ("0F0", "0B1", "0F1", "0B0")]}

    module = Block()
    module.forward = None  # It is not called.
    schedule = Late(PipelineStage(module, 0, 1, "cpu", group=alone()), 2, loss_fn=mse)
    x = torch.randn(4, 6)
    with pytest.raises(ValueError, match="rank 0 stands at action 1, 0B1, which waits for 0F1 of rank 0"):
        schedule.step(x, target=x)
    with pytest.raises(NotImplementedError, match="PipelineScheduleSingle has neither a table nor"):
        PipelineScheduleSingle(PipelineStage(Block(), 0, 1, "cpu", group=alone()), 2).step(x)


def test_tables_from_files_run(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("0F0,0F1,2F0,2F1,2B0,,2B1,0B0,0B1\n1F0,1F1,3F0,3I0,3F1,3W0,3B1,1B0,1B1\n")
    parts = blocks(4)
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    _, _, want = whole_step(parts, x, y)
    for make in (_PipelineScheduleRuntime, PipelineScheduleMulti):

        def load(stages, count, loss_fn, make=make):
            schedule = make(stages, count, loss_fn=loss_fn)
            schedule._load_csv(path)
            return schedule

        run_pipeline(load, parts, 2, 2, x, y)
        check_close(gradients(parts), want)


def test_a_schedule_of_ones_own_runs_by_its_table():
    class One(PipelineScheduleSingle):
        """One microbatch at a time."""

        def _table(self):
            return {
                rank: [
                    _Action.from_str(f"{rank}{kind}{index}") for index in range(self._n_microbatches) for kind in "FB"
                ]
                for rank in range(self._num_stages)
            }

    class Backwards(PipelineScheduleMulti):
        """GPipe whose backwards run in the opposite order."""

        def __init__(self, stages, count, **options):
            super().__init__(stages, count, **options)
            for rank in range(self.pp_group_size):
                forwards = [_Action.from_str(f"{rank}F{index}") for index in range(count)]
                backwards = [_Action.from_str(f"{rank}B{index}") for index in reversed(range(count))]
                self.pipeline_order[rank] = forwards + backwards

    parts = blocks(3)
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    _, _, want = whole_step(parts, x, y)
    for make in (Backwards, lambda stages, count, loss_fn: One(stages[0], count, loss_fn=loss_fn)):
        run_pipeline(make, parts, 3, 4, x, y)
        check_close(gradients(parts), want)


def test_a_table_of_ones_own_may_be_forward_only():
    class Forwards(PipelineScheduleMulti):
        """Rank 0 has the second stage."""

        def __init__(self, stages, count):
            super().__init__(stages, count)
            for rank, stage in ((0, 1), (1, 0)):
                self.pipeline_order[rank] = [_Action.from_str(f"{stage}F{index}") for index in range(count)]

    parts = blocks(2)
    x = torch.randn(4, 6)

    def body(transport):
        stage = PipelineStage(parts[1 - transport.rank], 1 - transport.rank, 2, "cpu", group=transport)
        return Forwards([stage], 2).step(*((x,) if stage.is_first else ()))

    check_close([run_ranks(2, body)[0].detach()], [nn.Sequential(*parts)(x).detach()])


def test_functions_of_ones_own_run_overlapped_actions():
    parts = blocks(4)
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    _, _, want = whole_step(parts, x, y)
    seen = []

    def overlap(action, context):
        schedule = context.schedule_ref
        stages = {stage.stage_index: stage for stage in schedule._stages}
        forward, backward = action.sub_actions
        stage, index = stages[forward.stage_index], forward.microbatch_index
        for work in schedule.fwd_recv_ops.pop((stage.stage_index, index), ()):
            work.wait()
        output = stage.forward_one_chunk(index, context.arg_mbs[index], context.kwarg_mbs[index])
        schedule._maybe_compute_loss(stage, output, context.target_mbs, index)
        if stage.stage_index + 1 in stages:
            stages[stage.stage_index + 1].set_local_fwd_input(output, index)
        stage, index = stages[backward.stage_index], backward.microbatch_index
        for work in schedule.bwd_recv_ops.pop((stage.stage_index, index), ()):
            work.wait()
        schedule.backward_counter[stage.stage_index] += 1
        stage.backward_one_chunk(index, loss=schedule._maybe_get_loss(stage, index))
        if stage.stage_index - 1 in stages:
            stages[stage.stage_index - 1].set_local_bwd_input(stage.get_local_bwd_output(index), index)
        seen.append(action)

    def make(stages, count, loss_fn):
        schedule = ScheduleDualPipeV(stages, count, loss_fn=loss_fn)
        schedule.register_custom_function(OVERLAP_F_B, overlap)
        return schedule

    stages_of = _stages_of_ranks(2, 4, "v")

    def body(transport):
        stages = [PipelineStage(parts[i], i, 4, "cpu", group=transport) for i in stages_of[transport.rank]]
        first = transport.rank == 0
        make(stages, 4, mse).step(*((x,) if first else ()), target=y if first else None)

    run_ranks(2, body)
    check_close(gradients(parts), want)
    assert seen


def test_weights_by_a_function_of_ones_own():
    parts = blocks(2)
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    _, _, want = whole_step(parts, x, y)
    calls = []

    def body(transport):
        stage = PipelineStage(
            parts[transport.rank], transport.rank, 2, "cpu", group=transport,
            dw_builder=lambda: lambda: calls.append(transport.rank),
        )  # fmt: skip
        schedule = ScheduleInterleavedZeroBubble([stage], 2, loss_fn=mse)
        schedule.step(*((x,) if stage.is_first else ()), target=y if stage.is_last else None)

    run_ranks(2, body)
    check_close(gradients(parts), want)
    assert sorted(calls) == [0, 0, 1, 1]


def test_forward_contexts_surround_each_forward():
    seen = []

    class Context:
        def __init__(self, info):
            self.info = info

        def __enter__(self):
            seen.append(self.info)

        def __exit__(self, *error):
            return self.info.microbatch_index == 7

    schedule = single(loss_fn=mse)
    handle = schedule._stage.register_forward_context(Context)
    with pytest.raises(RuntimeError, match="A pipeline forward context is already registered"):
        schedule._stage.register_forward_context(Context)
    x = torch.randn(4, 6)
    schedule.step(x, target=x)
    assert [(info.stage_index, info.microbatch_index, info.is_metadata_inference) for info in seen] == [
        (0, 0, True),
        (0, 0, False),
        (0, 1, False),
    ]
    handle.remove()
    schedule.step(x, target=x)
    assert len(seen) == 3


def test_sent_outputs_are_released():
    """A limit on sends puts a wait before the backward, which then starts from the edges of the graph."""
    released = []

    class Watched(PipelineStage):
        def release_fwd_send_outputs(self, fwd_chunk_id):
            super().release_fwd_send_outputs(fwd_chunk_id)
            entry = self._forwarded.get(fwd_chunk_id)
            if entry is not None:
                released.append(entry.outputs)

    parts = blocks(2)
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    _, _, want = whole_step(parts, x, y)

    def body(transport):
        stage = Watched(parts[transport.rank], transport.rank, 2, "cpu", group=transport)
        schedule = ScheduleInterleaved1F1B([stage], 4, loss_fn=mse, max_outstanding_sends=1)
        schedule.step(*((x,) if stage.is_first else ()), target=y if stage.is_last else None)

    run_ranks(2, body)
    check_close(gradients(parts), want)
    assert released and all(outputs == (None,) for outputs in released)


def test_stages_are_checked():
    with pytest.raises(ValueError, match="Stage index 2 is out of range of 2"):
        PipelineStage(Block(), 2, 2, "cpu", group=alone())
    with pytest.raises(RuntimeError, match="Pipeline group size 3 cannot be larger than number of stages 2"):
        run_ranks(3, lambda transport: PipelineStage(Block(), 0, 2, "cpu", group=transport))
    with pytest.raises(PipeliningMetadataError, match=r"Stage arg\[0\] has type int"):
        PipelineStage(Block(), 0, 1, "cpu", group=alone(), input_args=(1,))
    with pytest.raises(PipeliningMetadataError, match="must be a tensor, tuple, or list of tensors, got dict"):
        PipelineStage(Block(), 0, 1, "cpu", group=alone(), output_args={})
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        PipelineStage(Block(), 0, 1, "cpu")
    stage = PipelineStage(Block(), 0, 1, "cpu", group=alone())
    with pytest.raises(ValueError, match=r"Number of microbatches \(0\) must be greater than or equal to"):
        Schedule1F1B(stage, 0)
    with pytest.raises(ValueError, match="ZBV requires exactly 2 stages per rank, but got 1"):
        ScheduleZBVZeroBubble([stage], 2)


class Sharded(FSDPModule, nn.Module):
    """A module that records what a schedule asks of FSDP."""

    def __init__(self, inner, log):
        nn.Module.__init__(self)
        self.inner, self.log = inner, log

    def forward(self, x):
        assert not self.log or self.log[-1] != "unshard"
        return self.inner(x)

    def unshard(self, async_op=False):
        self.log.append("unshard")
        log = self.log

        class Handle:
            def wait(self):
                log.append("whole")

        return Handle()

    def reshard(self):
        self.log.append("reshard")

    def set_is_last_backward(self, last):
        self.log.append(f"last={last}")

    def set_reshard_after_backward(self, reshard):
        """Do nothing: `set_is_last_backward` is recorded."""

    def set_requires_gradient_sync(self, sync):
        """Do nothing: `set_is_last_backward` is recorded."""


def test_parameters_are_gathered_and_gradients_reduced_once():
    log = []
    module = Sharded(Block(), log)
    stage = PipelineStage(module, 0, 1, "cpu", group=alone())
    schedule = ScheduleInterleaved1F1B([stage], 2, loss_fn=mse)
    x = torch.randn(4, 6)
    _, _, want = whole_step([module.inner], x, x)
    schedule.step(x, target=x)
    check_close(gradients([module]), want)
    # The first one ends the forward that finds out shapes.
    assert log == ["reshard", "unshard", "whole", "last=False", "last=True", "reshard"]
    with pytest.raises(NotImplementedError, match="gradients of FSDP are reduced in each step"):
        schedule.step(x, target=x, finalize_gradients=False)
    with pytest.raises(NotImplementedError, match="Use a schedule that does not split backwards"):
        ScheduleInterleavedZeroBubble([stage], 2, loss_fn=mse).step(x, target=x)


def test_forwards_alone_have_no_loss():
    parts, x = blocks(2), torch.randn(4, 6)
    want = nn.Sequential(*parts)(x)

    def run(transport):
        stage = PipelineStage(parts[transport.rank], transport.rank, 2, "cpu", group=transport)
        schedule = _ScheduleForwardOnly(stage, 2)
        if not stage.is_first:
            return schedule.step()
        schedule.step(x)
        with pytest.raises(RuntimeError, match="does not support loss"):
            schedule.step(x, target=x, losses=[])

    torch.testing.assert_close(run_ranks(2, run)[1], want)
