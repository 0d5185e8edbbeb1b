"""Expanded tensors on device "tpu": copies of an element are not written out before they are reduced or selected."""

import os
import subprocess
import sys

import pytest

import pytpu as torch

PROGRAM = """
import resource, pytpu as torch
x = torch.ones(1, device="tpu")
resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
y = x.expand(2**32)
assert y.sum().item() == 2**32 and y.mean().item() == 1 and y.max().item() == 1 and y.amin().item() == 1
assert y[5:8].tolist() == [1, 1, 1] and y[7].item() == 1 and y[::2**30].shape == (4,)
z = torch.tensor([[1.0], [2.0]], device="tpu").expand(3, 2, 2**30)
assert z.sum(2).tolist() == [[2.0**30, 2.0**31]] * 3 and z.sum((0, 2)).tolist() == [3 * 2.0**30, 3 * 2.0**31]
assert z[1, :, 5].tolist() == [1, 2] and z.permute(2, 1, 0)[9].tolist() == [[1, 1, 1], [2, 2, 2]]
assert z.any().item() and z.unsqueeze(0)[0, 2, 1, 3:5].tolist() == [2, 2]
assert torch.ones(1, dtype=torch.int32, device="tpu").expand(2**32).sum().item() == 2**32
torch.tpu.set_eager_mode("strict")
assert x.expand(2**32).sum().item() == 2**32 and x.expand(2**32)[5:8].tolist() == [1, 1, 1]
print("done")
"""


@pytest.mark.parametrize("interpret", ["0", "always"])
def test_a_long_expanded_tensor_needs_no_memory(interpret):
    env = {**os.environ, "TORCHTPU_INTERPRET": interpret}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env)
    assert done.stdout == "done\n", done.stderr


VIEWS = {
    "slice": lambda x: x[:, 1:3],
    "select": lambda x: x[1],
    "permute": lambda x: x.permute(2, 0, 1)[1:],
    "step": lambda x: x[..., ::2],
    "unsqueeze": lambda x: x.unsqueeze(1)[:, :, 1:],
    "flatten": lambda x: x.flatten()[3:20],
    "expand": lambda x: x[:, :1].expand(3, 6, 5)[1:, 2:4],
    "squeeze": lambda x: x[:1].squeeze(0)[:, 1],
    "empty": lambda x: x[1:1],
    "transpose": lambda x: x.transpose(0, 2)[1:, :, :2].transpose(1, 2),
}
REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum(0)": lambda x: x.sum(0),
    "mean": lambda x: x.double().mean(-1),
    "prod": lambda x: x.prod(-1),
    "max": lambda x: x.amax(-1) if x.numel() else x.sum(),
    "any": lambda x: (x > 1).any(-1),
    "norm": lambda x: x.norm(),
    "argmax": lambda x: x.argmax(-1) if x.numel() else x.sum(),
    "half": lambda x: x.half().sum(0),
    "copy": lambda x: x * 1,
}


STARTS = {
    "columns": lambda device: torch.tensor([[[1.0]], [[2.0]], [[0.5]]], device=device).expand(3, 4, 5),
    "rows": lambda device: (torch.arange(4.0, device=device) + 0.5).view(4, 1).expand(3, 4, 5),
    "number": lambda device: torch.tensor(1.5, device=device).expand(3, 4, 5),
    "slice": lambda device: torch.arange(12.0, device=device).view(3, 4, 1)[:, 1:3, :].expand(3, 2, 5).repeat(1, 2, 1),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("view", VIEWS)
def test_views_and_reductions_of_expanded_tensors_agree_with_cpu(view, start):
    on_cpu, on_device = (VIEWS[view](STARTS[start](device)) for device in ("cpu", "tpu"))
    for reduce in REDUCTIONS.values():
        torch.testing.assert_close(reduce(on_device).cpu(), reduce(on_cpu))


def test_sums_of_expanded_tensors_have_gradients():
    gradients = []
    for device in ("cpu", "tpu"):
        x = torch.tensor([[1.0], [2.0]], device=device, requires_grad=True)
        y = x.expand(2, 6)
        (y.sum(1).square().sum() + y[:, 2:4].sum() + y.amax(1).sum() + y.mean()).backward()
        gradients.append(x.grad.cpu())
    torch.testing.assert_close(*gradients)
