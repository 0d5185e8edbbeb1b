"""Whether XLA's CPU backend, which stands in for an accelerator, counts as one."""

import json
import os
import subprocess
import sys

import pytest
from patience import HANG_SECONDS

CODE = """
import json
import pytpu as torch
pytpu = torch
pytpu.install()
print(json.dumps([
    str(torch.accelerator.current_accelerator()),
    str(torch.accelerator.current_accelerator(check_available=True)),
    torch.accelerator.is_available(),
    torch.accelerator.device_count(),
    str(torch._C._get_accelerator()),
    torch.get_device_module().__name__,
    torch.tpu.is_available(),
    str(torch.ones(2, device="tpu").device),
    __import__("os").environ.get("ACCELERATE_TORCH_DEVICE"),
]))
"""


def answers(said):
    env = {k: v for k, v in os.environ.items() if k not in ("TORCHTPU_STANDIN_IS_ACCELERATOR", "PYTHONSTARTUP")}
    env.pop("ACCELERATE_TORCH_DEVICE", None)
    if said is not None:
        env["TORCHTPU_STANDIN_IS_ACCELERATOR"] = said
    out = subprocess.run(
        [sys.executable, "-c", CODE], env=env, capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    )
    return json.loads(out.stdout)


@pytest.mark.parametrize("said", [None, "0"])
def test_the_stand_in_is_no_accelerator(said):
    assert answers(said) == ["None", "None", False, 0, "cpu", "torch.cpu", True, "tpu:0", None]


def test_the_stand_in_is_an_accelerator_where_the_environment_says_so():
    assert answers("1") == ["tpu", "tpu", True, 1, "tpu", "torch.tpu", True, "tpu:0", "tpu"]


def test_a_plan_has_an_accelerator(monkeypatch):
    import pytpu as torch

    monkeypatch.delenv("TORCHTPU_STANDIN_IS_ACCELERATOR", raising=False)
    if not torch.tpu.aot.is_available():
        pytest.skip("libtpu is not installed")
    assert torch.accelerator.current_accelerator() is None
    with torch.tpu.plan("v5e:2x2"):
        assert torch.accelerator.current_accelerator() == torch.device("tpu") and torch.accelerator.is_available()
