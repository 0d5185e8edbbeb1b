"""Lowerings for accelerators, compiled by XLA:CPU and compared with device cpu.

The platform is chosen when the plugin is loaded, so each test computes in a process of its own.
"""

import os
import subprocess
import sys

import pytest

import pytpu as torch
from pytpu.nn import functional as F

# Bounds relative to the largest element of the float32 result.
TOLERANCE = {torch.float32: 2e-6, torch.float16: 4e-3, torch.bfloat16: 4e-2}
# Batch, query heads, key heads, queries, keys, size of a key, size of a value.
SHAPES = [(2, 4, 4, 8, 8, 16, 16), (2, 4, 2, 5, 7, 8, 12), (1, 6, 2, 1, 9, 8, 8), (2, 4, 1, 7, 7, 8, 8)]


def check(got, want, dtype, case, least=1e-6):
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert g.shape == w.shape, (case, i)
        error = ((g.cpu().float() - w.float()).abs().max() / w.float().abs().max().clamp(min=least)).item()
        assert error < TOLERANCE[dtype], (case, i, error)


def leaves(tensors, dtype, wide, device):
    """Return the same rounded numbers as leaves on each device. `cpu` computes with them in float32."""
    of = [t.to(dtype).to(torch.float32 if wide else dtype) for t in tensors]
    return [t.to(device).detach().clone().requires_grad_() for t in of]


def attention():
    torch.manual_seed(0)
    for dtype in TOLERANCE:
        for b, h, kv, length, s, e, ev in SHAPES:
            g = torch.randn(b, h, length, ev).to(dtype)
            masks = {
                "none": None,
                "causal": None,
                "trained": torch.randn(length, s),
                "added": torch.randn(b, 1, length, s),
                "seen": torch.rand(b, h, length, s) > 0.3,
                "keys": torch.rand(1, 1, 1, s) > 0.3,
            }
            masks["seen"][0, 0, 0] = False  # a row with all keys masked
            for rows_first in (False, True):
                lay = lambda n, m, d: torch.randn(*((b, m, n, d) if rows_first else (b, n, m, d)))
                inputs = [lay(h, length, e), lay(kv, s, e), lay(kv, s, ev)]
                for name, mask in masks.items():

                    def run(device, wide):
                        x = leaves(inputs, dtype, wide, device)
                        m = mask
                        if m is not None and m.dtype != torch.bool:
                            (m,) = leaves([m], dtype, wide, device)
                            m = m if name == "trained" else m.detach()
                        elif m is not None:
                            m = m.to(device)
                        q, k, v = (t.transpose(1, 2) for t in x) if rows_first else x
                        y = F.scaled_dot_product_attention(
                            q, k, v, attn_mask=m, is_causal=name == "causal", enable_gqa=h != kv
                        )
                        y.backward(g.to(y.dtype).to(device))
                        return [y.detach(), *(t.grad for t in x), *([m.grad] if name == "trained" else [])]

                    # With one visible key, gradients of queries and keys are zero: differences of equal numbers.
                    case = (dtype, h, kv, length, name, rows_first)
                    check(run("tpu", False), run("cpu", True), dtype, case, least=0.5)


def dropout():
    """With the identity as values, the output is the weights. Each is zero or doubled."""
    torch.manual_seed(1)
    for dtype in TOLERANCE:
        q, k = (torch.randn(2, 3, 16, 8).to(dtype) for _ in range(2))
        v = torch.eye(16).expand(2, 3, 16, 16).to(dtype)
        want = 2 * F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
        got = (
            F.scaled_dot_product_attention(*(t.to("tpu") for t in (q, k, v)), dropout_p=0.5, is_causal=True)
            .cpu()
            .float()
        )
        kept = got != 0
        assert 0.3 < (kept.sum() / (want != 0).sum()).item() < 0.7
        check([got], [torch.where(kept, want, 0.0)], dtype, ("dropout", dtype))


def batch_norm():
    torch.manual_seed(2)
    x, w, b, g = torch.randn(4, 6, 5, 7) * 2 + 3, torch.randn(6), torch.randn(6), torch.randn(4, 6, 5, 7)
    for dtype in TOLERANCE:
        for training in (True, False):
            for affine in (True, False):

                def run(device, wide):
                    inputs = leaves([x, w, b] if affine else [x], dtype, wide, device)
                    mean, var = torch.zeros(6).to(device), torch.ones(6).to(device)
                    y = F.batch_norm(inputs[0], mean, var, *inputs[1:], training=training)
                    y.backward(g.to(dtype).to(y.dtype).to(device))
                    return [y.detach(), mean, var, *(t.grad for t in inputs)]

                check(run("tpu", False), run("cpu", True), dtype, (dtype, training, affine))
    # Two passes compute the variance exactly enough when the mean is large.
    x = torch.randn(8, 2, 9) + 1000
    check(
        [F.batch_norm(x.to("tpu"), None, None, training=True)],
        [F.batch_norm(x.double(), None, None, training=True) + 0.0],
        torch.float16,
        "large mean",
    )


def cross_entropy():
    torch.manual_seed(3)
    scores, classes, weights = torch.randn(7, 5), torch.tensor([0, 4, -100, 2, 3, 1, -100]), torch.rand(5) + 0.5
    for weight in (None, weights):
        for smoothing in (0.0, 0.1):
            for reduction in ("mean", "sum", "none"):

                def run(device):
                    (x,) = leaves([scores], torch.float32, True, device)
                    w = None if weight is None else weight.to(device)
                    y = F.cross_entropy(x, classes.to(device), w, reduction=reduction, label_smoothing=smoothing)
                    y.sum().backward()
                    return [y.detach(), x.grad]

                check(run("tpu"), run("cpu"), torch.float32, (weight is None, smoothing, reduction))
    # Truncated to 32 bits, the last two would be valid classes.
    for wrong in (5, -1, 2**32 + 1, -(2**32)):
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            F.cross_entropy(scores.to("tpu"), torch.tensor([0, 1, 2, 3, 4, 0, wrong]).to("tpu")).item()


def differentiated_twice():
    x = torch.randn(1, 2, 3, 4, dtype=torch.float64)

    def run(device):
        (leaf,) = leaves([x], torch.float64, False, device)
        y = F.scaled_dot_product_attention(leaf, leaf * 0.5, leaf.sin(), is_causal=True)
        (g,) = torch.autograd.grad(y.square().sum(), leaf, create_graph=True)
        return [g.detach(), *torch.autograd.grad(g.sin().sum(), leaf)]

    for got, want in zip(run("tpu"), run("cpu")):
        assert torch.allclose(got.cpu(), want, rtol=1e-9, atol=1e-9)


def network():
    """Losses, a running loss and statistics of a small network follow those of `cpu`."""

    def losses(device):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1),
            torch.nn.BatchNorm2d(4),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(64, 5),
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


def grouped_convolution():
    """Gradients of convolutions whose weights have groups."""
    torch.manual_seed(0)
    for groups, c, o, stride, dilation, padding in [(6, 6, 6, 1, 1, 1), (3, 6, 12, 2, 1, 1), (2, 4, 6, 1, 2, 2)]:
        inputs = [torch.randn(3, c, 9, 8), torch.randn(o, c // groups, 3, 2)]

        def run(device):
            x, w = leaves(inputs, torch.float32, False, device)
            y = F.conv2d(x, w, stride=stride, dilation=dilation, padding=padding, groups=groups)
            y.backward(torch.linspace(-1, 1, y.numel()).view(y.shape).to(device))
            return y.detach(), x.grad, w.grad

        check(run("tpu"), run("cpu"), torch.float32, (groups, c, o))
    x = torch.randn(2, 3, 20)
    w = torch.randn(6, 1, 4, requires_grad=True)
    F.conv1d(x, w, groups=3).sin().sum().backward()
    v = w.detach().to("tpu").requires_grad_()
    F.conv1d(x.to("tpu"), v, groups=3).sin().sum().backward()
    check([v.grad], [w.grad], torch.float32, "conv1d")


def division_by_a_small_number():
    edges = [0, 1, -1, 6, 7, -7, -8, 2**16, -(2**16), 2**31 - 1, 2**32, -(2**32) - 1, 2**63 - 1, -(2**63)]
    x = torch.tensor(edges + [(i * 0x9E3779B97F4A7C15 + i) % 2**64 - 2**63 for i in range(200)])
    y = x.to("tpu")
    for by in (1, 2, 3, 7, 10, 255, 4096, 65521, 65535, 65536, -7, 2**40):
        assert torch.equal((y % by).cpu(), x % by), by
        assert torch.equal((y // by).cpu(), x // by), by
        z, w = y.clone(), x.clone()
        z %= by
        w %= by
        assert torch.equal(z.cpu(), w), by
    assert "while" not in torch.tpu.dump_stablehlo(y % 7)
    assert torch.equal((x.to(torch.int32).to("tpu") % 7).cpu(), x.to(torch.int32) % 7)


def random_numbers():
    """Draws of the device's own generator: their distributions, and that the seed repeats them."""

    def drawn(seed):
        torch.manual_seed(seed)
        sizes = [(400, 300), (7,), (), (3, 0), (100000,)]
        found = [torch.rand(s, device="tpu") for s in sizes]
        found += [torch.randn(200, 200, device="tpu"), torch.rand(300, 300, device="tpu", dtype=torch.float64)]
        found += [torch.randint(0, 10, (1000, 20), device="tpu"), torch.randperm(100, device="tpu")]
        found += [F.dropout(torch.ones(500, 400, device="tpu"), 0.25)]
        return [t.cpu() for t in found]

    a, b, c = drawn(3), drawn(3), drawn(4)
    assert all(torch.equal(s, t) for s, t in zip(a, b))
    assert all(s.numel() < 2 or not torch.equal(s, t) for s, t in zip(a, c))
    for i in (0, 4, 6):
        assert 0 <= a[i].min() and a[i].max() < 1 and abs(a[i].mean() - 0.5) < 5e-3 and abs(a[i].var() - 1 / 12) < 2e-3
    assert abs(a[5].mean()) < 0.02 and abs(a[5].std() - 1) < 0.02
    assert a[7].unique().tolist() == list(range(10)) and a[8].sort().values.tolist() == list(range(100))
    kept = (a[9] != 0).double()
    assert abs(kept.mean() - 0.75) < 5e-3 and abs(a[9].max() - 4 / 3) < 1e-6
    # Neighbours, and one draw and the next, are independent.
    u, v = a[0].flatten().double() - 0.5, a[4].double() - 0.5
    assert abs((u[:-1] * u[1:]).mean() * 12) < 0.02 and abs((u[:100000] * v).mean() * 12) < 0.02


def excess_precision():
    """A product of 16-bit floats is rounded before a wider op reads it, unless the program allows otherwise."""

    def found():
        eye, one = torch.eye(64, dtype=torch.bfloat16, device="tpu"), torch.ones(1, device="tpu")
        return ((eye * (1 + 2**-6)) @ (eye * (1 + 2**-7)) * one)[0, 0].item()

    assert not torch.backends.tpu.allow_excess_precision and found() == 1.0234375
    torch.backends.tpu.allow_excess_precision = True
    assert torch.backends.tpu.allow_excess_precision and found() == pytest.approx(1.02355957)
    torch.backends.tpu.allow_excess_precision = False
    assert found() == 1.0234375


def powers():
    x = torch.linspace(0.1, 4, 50)
    for p in (-2, -1, -0.5, 0, 0.5, 1, 2, 3):

        def run(device):
            v = x.to(device).detach().clone().requires_grad_()
            y = v**p
            y.backward(torch.full_like(y, 1.1))
            return y.detach(), v.grad

        check(run("tpu"), run("cpu"), torch.float32, p)


@pytest.mark.parametrize(
    "function",
    [
        attention,
        dropout,
        batch_norm,
        cross_entropy,
        differentiated_twice,
        network,
        grouped_convolution,
        division_by_a_small_number,
        random_numbers,
        excess_precision,
        powers,
    ],
    ids=lambda f: f.__name__,
)
def test_accelerator_lowering_equals_cpu(function, tmp_path):
    environment = {
        **os.environ,
        "TORCHTPU_CACHE": "0",
        "TORCHTPU_LOWERINGS": "accelerator",
        "TORCHTPU_DUMP_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, __file__, function.__name__], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    texts = [path.read_text() for path in tmp_path.glob("*.mlir")]
    assert texts and not any("torchtpu.kernel" in text for text in texts)
    if function is attention:
        assert any(
            "bf16>) -> tensor" in line and line.rstrip().endswith("xf32>")
            for t in texts
            for line in t.splitlines()
            if "dot_general" in line
        )


if __name__ == "__main__":
    globals()[sys.argv[1]]()
