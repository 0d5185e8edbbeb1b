"""Groups of which only this rank exists: programs of many ranks, planned for machines that are not here."""

import os
import subprocess
import sys

import pytest
from patience import HANG_SECONDS

import pytpu as torch
import pytpu.distributed as dist
from pytpu.distributed.device_mesh import init_device_mesh

if not torch.tpu.aot.is_available():
    assert os.environ.get("CI") != "true", "libtpu is missing: pip install libtpu"
    pytest.skip("libtpu is not installed", allow_module_level=True)


@pytest.fixture
def no_group():
    """Leave the group of a test, also if it failed."""
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def collectives(program, topology):
    """Return the collectives of a program by kind."""
    return {(c.kind, c.devices): c for c in program.reports[topology].collectives}


def test_data_parallel_training_is_planned_for_64_chips(no_group):
    topology = "v5e:8x8"
    with torch.tpu.plan(topology) as plan:
        dist.init_process_group()
        assert (dist.get_rank(), dist.get_world_size()) == (0, 64)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 512).to("tpu"))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.ones(8, 256).to("tpu")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    step = plan.steps[-1].programs
    assert len(step) == 1
    program = plan.programs[step[0]]
    assert program.ranks == program.reports[topology].ranks == 64
    # The compiler combines the sums of the two gradients.
    gradients = 4 * (256 * 512 + 512)
    reduced = collectives(program, topology)["all-reduce", 64]
    assert reduced.bytes == gradients and reduced.count <= 2
    # A ring sends twice the gradients of the other ranks, over links of 50 GB/s.
    links = reduced.links or 2
    assert reduced.seconds == pytest.approx(2 * 63 / 64 * gradients / (links * 50e9))
    report = program.reports[topology]
    assert report.network_seconds == pytest.approx(reduced.seconds)
    assert report.seconds == pytest.approx(
        max(report.compute_seconds, report.memory_seconds) + report.network_seconds - report.hidden_seconds
    )
    assert "program 0, 64 ranks: " in str(plan.report()) and "all-reduce of 526 kB among 64" in str(report)
    assert "all-reduce" in program.hlo()


def test_groups_of_a_mesh_are_groups_of_the_program(no_group):
    with torch.tpu.plan("v5e:4x4") as plan:
        dist.init_process_group()
        mesh = init_device_mesh("tpu", (4, 4), mesh_dim_names=("rows", "columns"))
        x = torch.ones(16, 128, device="tpu")
        dist.all_reduce(x, group=mesh.get_group("rows"))
        whole = torch.empty(64, 128, device="tpu")
        dist.all_gather_into_tensor(whole, x, group=mesh.get_group("columns"))
        # The other ranks count as groups of the same size.
        dist.all_reduce(whole, group=dist.new_group([0, 5]))
        with pytest.raises(NotImplementedError, match="13 of 16 ranks are left"):
            dist.new_group([0, 1, 2])
        whole.sum().item()
    (program,) = plan.programs
    assert "dense<[[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]>" in program.stablehlo
    assert "dense<[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]>" in program.stablehlo
    assert "dense<[[0, 5], [1, 2], [3, 4], [6, 7]" in program.stablehlo
    found = collectives(program, "v5e:4x4")
    assert found["all-gather", 4].bytes == 4 * 64 * 128
    assert found["all-reduce", 4].bytes == 4 * 16 * 128 and found["all-reduce", 2].count == 1


def test_the_number_of_ranks_is_that_of_the_devices_unless_it_is_given(no_group, monkeypatch):
    with torch.tpu.plan("v5e:2x2,v6e:2x4"):
        with pytest.raises(ValueError, match=r"the machines of the plan have \[4, 8\] devices"):
            dist.init_process_group()
        with pytest.raises(ValueError, match="rank: 2, must be less than world_size 2"):
            dist.init_process_group(rank=2, world_size=2)
        dist.init_process_group(world_size=2)
        assert (dist.get_rank(), dist.get_world_size()) == (0, 2)
        dist.destroy_process_group()
        monkeypatch.setenv("RANK", "3")
        monkeypatch.setenv("WORLD_SIZE", "4")
        dist.init_process_group()
        assert (dist.get_rank(), dist.get_world_size()) == (3, 4)


def test_a_program_of_more_ranks_than_devices_is_refused(no_group):
    with torch.tpu.plan("v5e:2x2") as plan:
        dist.init_process_group(world_size=8)
        x = torch.ones(8, device="tpu")
        dist.all_reduce(x)
        x.sum().item()
    assert plan.programs[0].errors == {"v5e:2x2": "the program is for 8 ranks, but v5e:2x2 has 4 devices"}


def test_a_program_of_several_ranks_is_saved(no_group, tmp_path):
    with torch.tpu.plan("v5e:2x2") as plan:
        dist.init_process_group()
        x = torch.ones(8, device="tpu")
        dist.all_reduce(x)
        x.sum().item()
    assert plan.save(tmp_path / "step.bundle") == 1


def test_collectives_of_the_host_are_those_of_equal_ranks(no_group):
    with torch.tpu.plan("v5e:2x2"):
        dist.init_process_group(rank=1)
    x = torch.tensor([1.0, 2.0])
    dist.all_reduce(x)
    assert x.tolist() == [4.0, 8.0]
    dist.broadcast(x, src=2)
    assert x.tolist() == [4.0, 8.0]
    gathered = [None] * 4
    dist.all_gather_object(gathered, "shape")
    assert gathered == ["shape"] * 4
    assert dist.all_reduce(torch.ones(2), async_op=True).wait()
    dist.barrier()
    dist.monitored_barrier()
    dist.send(x, dst=0)
    with pytest.raises(NotImplementedError, match="rank 0 of a planned group does not exist"):
        dist.recv(x, src=0)
    # Programs run after the plan. Their results are those of equal ranks, too.
    y = torch.full((3,), 2.0, device="tpu")
    dist.all_reduce(y)
    assert y.tolist() == [8.0, 8.0, 8.0]


SCRIPT = """
import os
import torch
import torch.distributed as dist

dist.init_process_group()
assert os.environ["LOCAL_RANK"] == "0" and os.environ["LOCAL_WORLD_SIZE"] == "4"
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).to("tpu"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    model(torch.ones(2, 8).to("tpu")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def plan_command(script, *arguments):
    command = [sys.executable, "-m", "pytpu.aot", str(script), *arguments]
    env = {**os.environ, "TORCHTPU_PJRT_PLUGIN": "/nonexistent/plugin.so"}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=HANG_SECONDS)


def test_the_command_plans_a_script_for_torchrun(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = plan_command(script, "--topology", "v6e:2x4", "--steps", "2", "--ranks")
    assert done.returncode == 0, done.stderr
    assert "8 ranks: 1 all-reduce" in done.stdout, done.stdout
    done = plan_command(script, "--topology", "v6e:2x4,v5e:2x2", "--ranks")
    assert done.returncode != 0 and "the machines have [4, 8] devices" in done.stderr


def test_meshes_follow_the_links_between_chips(no_group):
    def sums(ranks):
        """Return the collective of a sum over the first dimension of a mesh."""
        topology = "v5p:4x4x8"
        with torch.tpu.plan(topology) as plan:
            dist.init_process_group()
            mesh = dist.DeviceMesh("tpu", ranks(), mesh_dim_names=("data", "model"))
            x = torch.ones(1 << 20, device="tpu")
            dist.all_reduce(x, group=mesh.get_group("data"))
            x.sum().item()
            dist.destroy_process_group()
        (found,) = [c for c in plan.programs[0].reports[topology].collectives if c.devices == 16]
        return found

    on_torus = sums(lambda: torch.tpu.ranks_on_torus((16, 8)))
    in_order = sums(lambda: torch.arange(128).reshape(16, 8))
    # On the torus the 16 chips are those of two whole dimensions, whose links the compiler uses together.
    assert on_torus.links > in_order.links and on_torus.seconds < 0.6 * in_order.seconds, (on_torus, in_order)
    with torch.tpu.plan("v5p:4x4x8"):
        dist.init_process_group()
        ranks = torch.tpu.ranks_on_torus((16, 8))
        assert ranks.dtype == torch.int64 and sorted(ranks.flatten().tolist()) == list(range(128))
        assert ranks.shape == (16, 8)
        with pytest.raises(ValueError, match=r"a mesh of sizes \[3, 8\] does not have 128 ranks"):
            torch.tpu.ranks_on_torus((3, 8))
