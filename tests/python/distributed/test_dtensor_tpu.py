"""Sharded tensors whose parts are on device ``tpu``: their collectives are ops of the recorded program."""

import os

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn
from pytpu.distributed.device_mesh import init_device_mesh
from pytpu.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
from pytpu.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

STEPS = 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 8)
        self.norm = nn.LayerNorm(8)
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 12)

    def forward(self, x):
        return self.second(torch.tanh(self.first(self.norm(self.words(x)))))


def model_and_data():
    torch.manual_seed(3)
    return Net(), torch.randint(0, 12, (8,)), torch.randint(0, 12, (8,))


def line(device):
    return init_device_mesh(device, (dist.get_world_size(),))


def sharded(kind, device):
    """Return a sharded model with its inputs and targets."""
    mesh = line(device)
    model, x, y = model_and_data()
    if kind == "tensors":
        styles = {"norm": SequenceParallel(sequence_dim=0), "first": ColwiseParallel()}
        styles["second"] = RowwiseParallel(use_local_output=False)
        model.words = distribute_module(model.words, mesh)
        return parallelize_module(model, mesh, styles), *(distribute_tensor(t, mesh, [Replicate()]) for t in (x, y))

    def shard(name, module, mesh):
        for key, parameter in list(module.named_parameters(recurse=False)):
            module.register_parameter(key, nn.Parameter(distribute_tensor(parameter.detach(), mesh, [Shard(0)])))

    return distribute_module(model, mesh, shard), *(distribute_tensor(t, mesh, [Shard(0)]) for t in (x, y))


def train(model, x, y, after_step=lambda: None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for _ in range(STEPS):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        after_step()
    return [loss.item() for loss in losses]


def programs_of_steps(kind):
    model, x, y = sharded(kind, "tpu")
    steps = []

    def launched():
        reads = torch.tpu.metrics()["downloads"]
        torch.tpu.synchronize()
        metrics = torch.tpu.metrics()
        steps.append((metrics["segments_executed"] + metrics["segments_interpreted"], reads))
        torch.tpu.reset_metrics()

    losses = train(model, x, y, launched)
    reference, x, y = model_and_data()
    return losses, train(reference, x, y), steps[2:]


@pytest.mark.parametrize("kind", ["parameters", "tensors"])
def test_a_sharded_step_is_one_program_without_reads(pool, kind):
    for losses, expected, steps in pool.run(programs_of_steps, kind):
        assert losses == pytest.approx(expected, rel=1e-4)
        assert steps == [(1, 0)] * len(steps), steps


@pytest.fixture
def planned():
    """Leave the group of a test of plans, also if it failed."""
    if not torch.tpu.aot.is_available():
        assert os.environ.get("CI") != "true", "libtpu is missing: pip install libtpu"
        pytest.skip("libtpu is not installed")
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_a_planned_step_has_the_collectives_of_its_redistributions(planned):
    with torch.tpu.plan("v5e:2x2", reads="raise") as plan:
        dist.init_process_group()
        mesh = init_device_mesh("tpu", (4,))
        w, v = (nn.Parameter(distribute_tensor(torch.ones(256, 256), mesh, [Shard(0)])) for _ in range(2))
        optimizer = torch.optim.SGD([w, v], lr=0.1)
        x = distribute_tensor(torch.ones(8, 256), mesh, [Shard(1)])
        for _ in range(2):
            rows = torch.tanh((x @ w).redistribute(placements=[Shard(0)]))
            loss = (rows.redistribute(placements=[Shard(1)]) @ v).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    # The first step has another program, which makes the parameters.
    assert len(plan.steps[-1].programs) == 1
    program = plan.programs[plan.steps[-1].programs[0]]
    assert program.ranks == 4 and not program.errors
    for kind in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"):
        assert f"stablehlo.{kind}" in program.stablehlo, program.stablehlo
