"""Numbers of the `tpu` devices of a host, of which each process has one."""

import json
import os
import subprocess
import sys

import pytest
from launching import LIMIT

import pytpu as torch

# A worker that writes what it sees. Workers wait for each other between the lines.
WORKER = """
import json, os
import pytpu as torch
import pytpu.distributed as dist

def message(make):
    try:
        make()
    except (RuntimeError, ValueError) as error:
        return str(error)

dist.init_process_group()
rank, folder = dist.get_rank(), os.environ["FOLDER"]
other = 1 - rank
x = torch.ones(2, device="tpu")
torch.save(x, f"{folder}/{rank}.pt")
dist.barrier()
model = torch.nn.Linear(2, 1).to(rank)
parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
loss = parallel(torch.ones(3, 2)).sum()
loss.backward()
found = {
    "count": torch.tpu.device_count(),
    "current": torch.accelerator.current_device_index(),
    "devices": [str(torch.ones(1).to(rank).device), str(x.device), str(model.weight.grad.device), str(loss.device)],
    "numbers": [x.get_device(), torch.Stream().device_index, x.__dlpack_device__()[1]],
    "loaded": [str(torch.load(f"{folder}/{r}.pt").device) for r in (0, 1)],
    "moved": [str(torch.load(f"{folder}/0.pt", map_location=f"tpu:{r}").device) for r in (0, 1)],
    "states": len(torch.tpu.get_rng_state_all()),
    "other": [
        message(lambda: x.to(other)), message(lambda: torch.randn(2, device=f"tpu:{other}")),
        message(lambda: torch.tpu.set_device(other)),
    ],
    "absent": [message(lambda: torch.ones(2, device="tpu:2")), message(lambda: torch.tpu.set_device(2))],
    "generator": message(lambda: torch.tpu.get_rng_state(other)),
    "mixed": message(lambda: x + torch.ones(2)),
    "same": x.device == torch.device("tpu", rank) == torch.device(f"tpu:{rank}"),
}
open(f"{folder}/found_{rank}", "w").write(json.dumps(found))
dist.destroy_process_group()
"""


def test_each_worker_has_the_device_of_its_local_rank(launcher):
    code, _, err = launcher.run("--nproc-per-node=2", launcher.script(WORKER))
    assert code == 0, err
    for rank in range(2):
        found, own = json.loads(launcher.file(f"found_{rank}")), f"tpu:{rank}"
        of_another = (
            f"tpu error: invalid device ordinal {1 - rank}; it is the device of another process, and this one has {own}"
        )
        assert found == {
            "count": 2,
            "current": rank,
            "devices": [own] * 4,
            "numbers": [rank] * 3,
            "loaded": [own] * 2,
            "moved": [own] * 2,
            "states": 2,
            "other": [of_another] * 3,
            "absent": ["tpu error: invalid device ordinal 2; this process has 1 device(s)"] * 2,
            "generator": f"tpu:{1 - rank} is the device of another process, and this one has {own}",
            "mixed": f"Expected all tensors to be on the same device, but found at least two devices, {own} and cpu!",
            "same": True,
        }


def test_workers_compile_the_same_program(launcher, tmp_path):
    # The number of the device is no part of a program, so the second run takes all of them from the cache.
    program = (
        "import os, pytpu as torch\n"
        "x = torch.arange(64.0, device='tpu').reshape(8, 8)\n"
        "print((x @ x).cos().sum().item(), x.device, torch.tpu.metrics()['compilations'])\n"
    )
    environment = {"TORCHTPU_CACHE_DIR": str(tmp_path / "cache"), "TORCHTPU_INTERPRET": "0", "LOCAL_WORLD_SIZE": "2"}
    lines = [
        subprocess.check_output(
            [sys.executable, "-c", program],
            text=True,
            timeout=LIMIT,
            env={**os.environ, **environment, "LOCAL_RANK": str(rank)},
        ).split()
        for rank in range(2)
    ]
    assert lines[0] == [lines[1][0], "tpu:0", "1"] and lines[1][1:] == ["tpu:1", "0"]


def test_the_device_can_be_chosen_before_the_first_tensor():
    program = (
        "import pytpu as torch\n"
        "device = torch.device('tpu', 1)\n"
        "torch.tpu.set_device(-1)\n"
        "print(torch.tpu.current_device())\n"
        "torch.accelerator.set_device_index(1)\n"
        "x = torch.ones(2, device=device)\n"
        "print(x.device, torch.ones(2, device='tpu').device == device)\n"
        "torch.tpu.set_device('tpu')\n"
        "try:\n    torch.tpu.set_device(0)\nexcept RuntimeError as error:\n    print(error)\n"
    )
    out = subprocess.check_output(
        [sys.executable, "-c", program], text=True, timeout=LIMIT, env={**os.environ, "LOCAL_WORLD_SIZE": "2"}
    )
    assert out.splitlines() == [
        "0",
        "tpu:1 True",
        "tpu error: invalid device ordinal 0; it is the device of another process, and this one has tpu:1",
    ]


def test_states_of_other_devices_are_ignored():
    states = torch.tpu.get_rng_state_all()
    a = torch.rand(3, device="tpu")
    torch.tpu.set_rng_state_all([*states, torch.zeros(3, dtype=torch.uint8)])
    assert torch.equal(a, torch.rand(3, device="tpu"))
    torch.tpu.set_rng_state_all([])
    with pytest.raises(RuntimeError, match="invalid device ordinal 1"):
        torch.tpu.get_rng_state(1)
