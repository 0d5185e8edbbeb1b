"""What `init_process_group` prepares for clients that several processes make together.

No accelerator is at hand. A copy of XLA:CPU under the name of another plugin stands for it, since the name says what a
plugin needs.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu import _C

CPU_PLUGIN = os.environ.get("TORCHTPU_PJRT_PLUGIN", "")

if not pathlib.Path(CPU_PLUGIN).is_file():
    pytest.skip("TORCHTPU_PJRT_PLUGIN names no file", allow_module_level=True)


def run(script, plugin, **variables):
    """Run a script with a plugin and environment variables, and return the JSON that it prints."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TPU_", "MEGASCALE_", "LOCAL_"))}
    env = {**env, "TORCHTPU_PJRT_PLUGIN": str(plugin), **variables}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def named(folder, name):
    """Return the XLA:CPU plugin under another name."""
    copy = folder / name
    try:
        os.link(CPU_PLUGIN, copy)
    except OSError:
        shutil.copy(CPU_PLUGIN, copy)
    return copy


JOIN = """
import json
import pytpu as torch
from pytpu import _C

store = torch.distributed.HashStore()
for worker in range(2):
    store.set(f"accelerator/host/0/{worker}", f"10.0.0.{worker}")
print(json.dumps(_C._accelerator_join(store, 6, 8, "localhost:1")))
"""


def test_processes_of_a_tpu_slice_get_their_variables(tmp_path):
    plugin = named(tmp_path, "libtpu.so")
    found = dict(run(JOIN, plugin, LOCAL_RANK="2", LOCAL_WORLD_SIZE="4", TPU_ACCELERATOR_TYPE="v5litepod-8"))
    assert found["CLOUD_TPU_TASK_ID"] == "6" and found["TPU_VISIBLE_CHIPS"] == "2"
    assert found["TPU_PROCESS_BOUNDS"] == "2,4,1" and found["TPU_CHIPS_PER_PROCESS_BOUNDS"] == "1,1,1"
    assert found["TPU_WORKER_HOSTNAMES"] == "10.0.0.0,10.0.0.1" and found["TPU_PROCESS_PORT"] == "8478"
    addresses = found["TPU_PROCESS_ADDRESSES"].split(",")
    assert len(addresses) == 8 and addresses[6] == "10.0.0.1:8478"
    assert not any(name.startswith("MEGASCALE") for name in found)


def test_other_plugins_need_no_variables(tmp_path):
    assert run(JOIN, named(tmp_path, "xla_cuda_plugin.so"), LOCAL_RANK="2", LOCAL_WORLD_SIZE="4") == []
    assert run(JOIN, CPU_PLUGIN) == []
    assert run(JOIN, tmp_path / "nothing.so") == []


LATE = """
import json
import pytpu as torch
import pytpu.distributed as dist
from pytpu import _C

is_known = torch.tpu.is_available()
torch.ones(2, device="tpu").sum().item()
errors = []
try:
    _C._accelerator_join(dist.HashStore(), 0, 2, "localhost:1")
except RuntimeError as error:
    errors.append(str(error))
# One process needs no others.
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
print(json.dumps([is_known, torch.tpu.is_available(), errors]))
"""


@pytest.mark.parametrize("name", ["libtpu.so", "xla_cuda_plugin.so"])
def test_the_processes_meet_before_the_first_tensor(tmp_path, name):
    variables = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "TPU_ACCELERATOR_TYPE": "v5litepod-4"}
    _, is_available, errors = run(LATE, named(tmp_path, name), **variables)
    assert is_available and len(errors) == 1
    assert errors[0].startswith("init_process_group must be called before the first tensor on device tpu")


@pytest.mark.skipif(pathlib.Path("/dev/nvidiactl").exists(), reason="the machine has a GPU")
def test_questions_about_an_accelerator_make_no_client(tmp_path):
    # The file is no plugin, which only its use would show.
    (tmp_path / "xla_cuda_plugin.so").write_text("")
    script = "import json, pytpu as torch; print(json.dumps([torch.tpu.is_available(), torch.tpu.device_count()]))"
    assert run(script, tmp_path / "xla_cuda_plugin.so") == [False, 0]


def test_on_xla_cpu_tensors_may_come_first():
    torch.ones(2, device="tpu").sum().item()
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert _C._accelerator_join(dist.HashStore(), 0, 2, "localhost:1") == []
    finally:
        dist.destroy_process_group()
