"""Pipelines over processes give the losses and gradients of the undivided model."""

import copy
import pathlib

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.distributed.pipelining import PipelineStage
from pytpu.distributed.pipelining._shapes import _stages_of_ranks
from pytpu.distributed.pipelining.schedules import get_schedule_class

mse = nn.functional.mse_loss
SCHEDULES = [
    ("GPipe", 1, 4),
    ("1F1B", 1, 4),
    ("LoopedBFS", 2, 4),
    ("Interleaved1F1B", 2, 4),
    ("InterleavedZeroBubble", 2, 4),
    ("ZBVZeroBubble", 2, 5),
    ("DualPipeV", 2, 8),
]


def step(name, local, microbatches, device, examples):
    """Run two steps on this rank. Return the largest difference of a gradient, an output and a loss."""
    import pytpu.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    stages = ranks * local
    torch.manual_seed(0)
    parts = [nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.LayerNorm(6)).to(device) for _ in range(stages)]
    whole = copy.deepcopy(nn.Sequential(*parts))
    x, y = torch.randn(2 * microbatches, 6).to(device), torch.randn(2 * microbatches, 6).to(device)
    want = whole(x)
    loss = mse(want, y)
    loss.backward()

    v = name in ("ZBVZeroBubble", "DualPipeV")
    mine = _stages_of_ranks(ranks, stages, "v" if v else "loop")[rank]
    shapes = {"input_args": x[:2], "output_args": x[:2]} if examples else {}
    stages_here = [PipelineStage(parts[index], index, stages, device, **shapes) for index in mine]
    make = get_schedule_class(name)
    schedule = make(stages_here[0] if name in ("GPipe", "1F1B") else stages_here, microbatches, loss_fn=mse)
    for _ in range(2):
        for stage in stages_here:
            stage.submod.zero_grad()
        losses = []
        output = schedule.step(*((x,) if 0 in mine else ()), target=y if stages - 1 in mine else None, losses=losses)
    differences = [
        (parameter.grad - other.grad).abs().max()
        for index in mine
        for parameter, other in zip(parts[index].parameters(), whole[index].parameters())
    ]
    if output is not None:
        differences += [(output - want).abs().max(), (torch.stack(losses).mean() - loss).abs()]
    return max(difference.item() for difference in differences), output is not None


@pytest.mark.parametrize("examples", [False, True], ids=["inferred", "examples"])
@pytest.mark.parametrize(("name", "local", "microbatches"), SCHEDULES)
def test_processes_give_the_gradients_of_the_undivided_model(pool, name, local, microbatches, examples):
    if name == "1F1B":
        microbatches = max(microbatches, pool.size)
    if name == "DualPipeV":
        microbatches = max(microbatches, 2 * pool.size)
    results = pool.run(step, name, local, microbatches, "cpu", examples)
    assert max(difference for difference, _ in results) < 1e-6
    assert sum(has_output for _, has_output in results) == 1


@pytest.mark.parametrize(("name", "local"), [("1F1B", 1), ("ZBVZeroBubble", 2)])
def test_processes_on_the_accelerator(pool, name, local):
    results = pool.run(step, name, local, 4, "tpu", False)
    assert max(difference for difference, _ in results) < 1e-6


def run_page(text):
    """Run the program of the page on this rank. Return its losses, which only the last rank has."""
    generator = torch.Generator().manual_seed(0)
    batches = [(torch.randn(16, 64, generator=generator).to("tpu"), torch.zeros(16, 64).to("tpu")) for _ in range(2)]
    names = {"batches": batches}
    exec(compile(text, "docs/distributed.md", "exec"), names)
    assert all(parameter.grad is None for parameter in names["part"].parameters())
    return [loss.item() for loss in names["losses"]]


def test_the_program_of_the_page_runs(pools):
    page = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "distributed.md").read_text()
    text = page.partition("## Pipelines")[2].partition("```py\n")[2].partition("```")[0]
    begin = 'dist.init_process_group("gloo")\n'
    assert begin in text
    first, last = pools(2).run(run_page, text.replace(begin, ""))
    assert first == []
    assert len(last) == 8 and all(0 < loss < 10 for loss in last)
