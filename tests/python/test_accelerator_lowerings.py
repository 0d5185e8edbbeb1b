"""Lowerings for accelerators, compiled by XLA:CPU: they give what device ``cpu`` gives."""

import os
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import itertools
import pytpu as torch
F = torch.nn.functional

def check(name, run, *inputs, rtol, atol):
    # `run` takes leaves and returns a tensor; its value and all gradients are compared.
    found = []
    for device in ("cpu", "tpu"):
        leaves = [x.detach().to(device).requires_grad_(x.is_floating_point()) for x in inputs]
        y = run(*leaves)
        wanted = [x for x in leaves if x.requires_grad]
        g = torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y.dtype).to(device)
        found.append([t.float().cpu() for t in (y.detach(), *torch.autograd.grad(y, wanted, g))])
    for i, (want, got) in enumerate(zip(*found)):
        assert torch.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True), (name, i, (got - want).abs().max())
"""


def run(program, **environment):
    env = {**os.environ, "TORCHTPU_LOWERINGS": "accelerator", **environment}
    text = textwrap.dedent(PRELUDE) + textwrap.dedent(program)
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=600, env=env)
    assert out.returncode == 0, out.stderr
    return out.stdout


def test_attention():
    run("""
    for dtype, (heads, kv), causal, masked, (t, s) in itertools.product(
        (torch.float32, torch.bfloat16, torch.float16), ((4, 4), (4, 2), (4, 1)), (False, True), (False, True), ((6, 6), (3, 7), (1, 7)),
    ):
        if causal and masked:
            continue
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, h, n, 8).to(dtype) for h, n in ((heads, t), (kv, s), (kv, s)))
        mask = (torch.rand(t, s) > 0.3) | (torch.arange(s) == 0) if masked else None

        def attention(q, k, v):
            m = mask.to(q.device) if masked else None
            return F.scaled_dot_product_attention(q, k, v, attn_mask=m, is_causal=causal, enable_gqa=heads != kv)

        tolerance = 2e-5 if dtype == torch.float32 else 3e-2
        check((dtype, heads, kv, causal, masked, t, s), attention, q, k, v, rtol=tolerance, atol=tolerance)
    # Rows that see nothing, an additive mask, and its gradient.
    q = torch.randn(1, 2, 3, 4)
    mask = torch.zeros(3, 3)
    mask[1] = float("-inf")
    check("no key", lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), q, mask, rtol=2e-5, atol=2e-5)
    """)


def test_attention_is_differentiated_twice():
    run("""
    x = torch.randn(1, 2, 3, 4, dtype=torch.float64)

    def twice(x):
        y = F.scaled_dot_product_attention(x, x * 0.5, x.sin(), is_causal=True)
        (g,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return g

    check("twice", twice, x, rtol=1e-9, atol=1e-9)
    """)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_batch_norm(dtype):
    run(f"""
    dtype = torch.{dtype}
    for shape, affine, train in itertools.product(((6, 3), (4, 3, 5), (2, 3, 4, 5)), (False, True), (False, True)):
        torch.manual_seed(0)
        x = (torch.randn(shape) * 2 + 1).to(dtype)
        w, b = torch.rand(3) + 0.5, torch.randn(3)

        def norm(x, w, b):
            mean, var = torch.zeros(3, device=x.device), torch.ones(3, device=x.device)
            y = F.batch_norm(x, mean, var, *((w, b) if affine else ()), training=train)
            return y + 0 * (w.sum() + b.sum()).to(y.dtype) + (mean.sum() + var.sum()).to(y.dtype)

        tolerance = 1e-4 if dtype == torch.float32 else 5e-2
        check((shape, affine, train), norm, x, w, b, rtol=tolerance, atol=tolerance)
    """)


def test_cross_entropy():
    run("""
    for reduction, weighted, smoothing, spatial in itertools.product(("mean", "sum", "none"), (False, True), (0.0, 0.2), (False, True)):
        torch.manual_seed(0)
        x = torch.randn((4, 5, 3) if spatial else (4, 5))
        target = torch.randint(0, 5, (4, 3) if spatial else (4,))
        target.view(-1)[1] = -100
        w = torch.rand(5) + 0.5

        def loss(x):
            return F.cross_entropy(
                x, target.to(x.device), weight=w.to(x.device) if weighted else None, reduction=reduction, label_smoothing=smoothing
            )

        check((reduction, weighted, smoothing, spatial), loss, x, rtol=2e-5, atol=2e-5)
    # A class that is none is an error with the value, as everywhere.
    for wrong in (5, -1, 2**40):
        try:
            F.cross_entropy(torch.randn(2, 5).to("tpu"), torch.tensor([0, wrong]).to("tpu")).item()
        except IndexError as error:
            assert str(wrong) in str(error), error
        else:
            raise AssertionError(wrong)
    """)


def test_a_small_network_learns_as_on_cpu():
    run("""
    def losses(device):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 5)
        ).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        x, y = torch.randn(8, 1, 4, 4), torch.randint(0, 5, (8,))
        found, total = [], torch.zeros((), device=device)
        for _ in range(6):
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            total += loss.detach()
            optimizer.zero_grad()
            found.append(loss.item())
        return found, total.item(), [b.float().sum().item() for b in model.buffers()]

    (want, total, buffers), (got, total_got, buffers_got) = losses("cpu"), losses("tpu")
    assert all(abs(a - b) < 1e-4 for a, b in zip(want, got)), (want, got)
    assert abs(total - total_got) < 1e-3 and all(abs(a - b) < 1e-3 for a, b in zip(buffers, buffers_got))
    """)
