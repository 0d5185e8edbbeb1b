"""Kernels that programs on XLA:CPU call, against the compiler's code and against device cpu."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pytpu as torch
from pytpu.nn import functional as F


def with_gradients(name, results, function, *inputs):
    """Add the result of a function and the gradients of its inputs to `results`."""
    leaves = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
    y = function(*leaves)
    (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape).to(y.device)).sum().backward()
    results[name] = y.detach().float().cpu().numpy()
    for i, x in enumerate(leaves):
        if x.requires_grad:
            results[f"{name}, gradient {i}"] = x.grad.float().cpu().numpy()


def compute(device):
    """Return arrays by name: results large enough for a kernel call, of random sizes from one seed."""
    rng = random.Random(3)
    results = {}

    def draw(*shape, dtype=torch.float32):
        return torch.randn(*shape).to(dtype).to(device)

    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for _ in range(4):
            m, k, n, b = rng.randint(20, 70), rng.randint(20, 70), rng.randint(20, 70), rng.randint(1, 3)
            name = f"{dtype} {b} x {m} x {k} x {n}"
            with_gradients(
                f"matmul {name}", results, torch.matmul, draw(b, m, k, dtype=dtype), draw(b, k, n, dtype=dtype)
            )
            with_gradients(
                f"linear {name}",
                results,
                F.linear,
                draw(b, m, k, dtype=dtype),
                draw(n, k, dtype=dtype),
                draw(n, dtype=dtype),
            )
            with_gradients(
                f"linear {name} alone", results, F.linear, draw(b, m, k, dtype=dtype), draw(n, k, dtype=dtype)
            )
        with_gradients(
            f"linear {dtype} with one for all",
            results,
            F.linear,
            draw(30, 40, dtype=dtype),
            draw(50, 40, dtype=dtype),
            draw(1, dtype=dtype),
        )
        parts = draw(60, 3 * 50, dtype=dtype)
        with_gradients(f"matmul {dtype} of parts", results, lambda x: x[:, 50:100] @ x[:50, 100:], parts)
        with_gradients(
            f"matmul {dtype} of turned parts", results, lambda x: x[:, :50].T @ x[:, 50:].relu(), parts.detach()
        )
        with_gradients(f"matmul {dtype} of every other", results, lambda x: x[::2, ::3] @ x[10:, 100:], parts.detach())
        with_gradients(
            f"linear {dtype} of parts",
            results,
            lambda x, w: F.linear(x[20:, :50], w[:40]),
            parts.detach(),
            draw(60, 50, dtype=dtype),
        )
        with_gradients(
            f"matmul {dtype} of one row repeated",
            results,
            lambda x, w: x.expand(70, 50) @ w,
            draw(1, 50, dtype=dtype),
            draw(50, 40, dtype=dtype),
        )
    for _ in range(24):
        spatial, groups = rng.choice([1, 2, 2, 3]), rng.choice([1, 1, 2])
        batch, c, o = rng.randint(1, 4), groups * rng.randint(1, 9), groups * rng.randint(1, 9)
        sizes = [rng.randint(7, 15) for _ in range(spatial)]
        kernel = [rng.randint(1, 4) for _ in range(spatial)]
        stride, padding, dilation = rng.randint(1, 2), rng.randint(0, 2), rng.randint(1, 2)
        dtype = rng.choice([torch.float32, torch.float32, torch.float64])
        plain = [F.conv1d, F.conv2d, F.conv3d][spatial - 1]
        transposed = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][spatial - 1]
        x = draw(batch, c, *sizes, dtype=dtype)
        name = f"{dtype} {list(x.shape)} to {o}, {kernel}, {stride}, {padding}, {dilation}, {groups}"
        with_gradients(
            f"conv {name}",
            results,
            lambda x, w: plain(x, w, None, stride, padding, dilation, groups),
            x,
            draw(o, c // groups, *kernel, dtype=dtype),
        )
        with_gradients(
            f"transposed {name}",
            results,
            lambda x, w: transposed(x, w, None, stride, padding, 0, groups, dilation),
            x.detach(),
            draw(c, o // groups, *kernel, dtype=dtype),
        )
    causal = {"is_causal": True}
    seen = (torch.rand(40, 30) > 0.3).to(device)
    added = torch.randn(2, 1, 1, 30).to(device)
    for kwargs in ({}, causal, {"attn_mask": seen}, {"attn_mask": added}, {"scale": 0.3}):
        with_gradients(
            f"attention {sorted(kwargs)}",
            results,
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **kwargs),
            draw(2, 3, 40, 16),
            draw(2, 3, 30, 16),
            draw(2, 3, 30, 12),
        )

        def of_a_layer(x, kwargs=kwargs):
            q, k, v = [z.view(2, 40, 4, 12).transpose(1, 2) for z in x.split(48, dim=2)]
            if "attn_mask" in kwargs:
                k, v = k[:, :, :30], v[:, :, :30]
            return F.scaled_dot_product_attention(q, k, v, **kwargs).transpose(1, 2).contiguous().view(2, 40, 48)

        with_gradients(f"attention {sorted(kwargs)} of a layer", results, of_a_layer, draw(2, 40, 3 * 48))
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0)):
        x = draw(3, 9, 33, 37)
        with_gradients(
            f"max pool {kernel}, {stride}, {padding}", results, lambda x: F.max_pool2d(x, kernel, stride, padding), x
        )
    with_gradients("max pool to 4 x 4", results, lambda x: F.adaptive_max_pool2d(x, 4), draw(3, 30, 16, 16))
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        x, w, b = draw(7, 33, 129, dtype=dtype), draw(129, dtype=dtype), draw(129, dtype=dtype)
        for approximate in ("none", "tanh"):
            with_gradients(
                f"gelu {dtype} {approximate}", results, lambda x: F.gelu(x, approximate=approximate), x.detach()
            )
        with_gradients(f"layer_norm {dtype}", results, lambda x, w, b: F.layer_norm(x, (129,), w, b), x.detach(), w, b)
        with_gradients(
            f"layer_norm {dtype} w", results, lambda x, w: F.layer_norm(x, (129,), w), x.detach(), w.detach()
        )
        with_gradients(f"layer_norm {dtype} alone", results, lambda x: F.layer_norm(x, (33, 129)), x.detach())
        with_gradients(f"rms_norm {dtype}", results, lambda x, w: F.rms_norm(x, (129,), w), x.detach(), w.detach())
        with_gradients(f"rms_norm {dtype} alone", results, lambda x: F.rms_norm(x, (129,)), x.detach())
        angles = draw(7, 33, 129, dtype=dtype) * 10
        for name, f in (("sin", torch.sin), ("cos", torch.cos), ("tan", lambda x: torch.tan(x).clamp(-3, 3))):
            with_gradients(f"angles {dtype} {name}", results, f, angles.detach())
        for dim in (0, 1, -1):
            with_gradients(f"softmax {dtype} {dim}", results, lambda x, dim=dim: F.softmax(x, dim), x.detach())
            with_gradients(f"log_softmax {dtype} {dim}", results, lambda x, dim=dim: F.log_softmax(x, dim), x.detach())
        for shape, classes in (((300, 90), 90), ((5, 70, 9, 11), 70), ((20000,), 20000)):
            scores, weights = draw(*shape, dtype=dtype), draw(classes, dtype=dtype).abs()
            target = torch.randint(0, classes, (*shape[:1], *shape[2:]) if len(shape) > 1 else ()).to(device)
            for kwargs in (
                {},
                {"weight": weights},
                {"label_smoothing": 0.2},
                {"weight": weights, "label_smoothing": 0.2},
                {"ignore_index": 3},
            ):
                with_gradients(
                    f"cross_entropy {dtype} {shape} {sorted(kwargs)}",
                    results,
                    lambda x, target=target, kwargs=kwargs: F.cross_entropy(x, target, **kwargs),
                    scores.detach(),
                )
                with_gradients(
                    f"cross_entropy {dtype} {shape} {sorted(kwargs)} a row",
                    results,
                    lambda x, target=target, kwargs=kwargs: F.cross_entropy(x, target, reduction="none", **kwargs),
                    scores.detach(),
                )
        # Only one of the gradients is computed.
        y = F.layer_norm(x.detach(), (129,), w, b.detach())
        results[f"layer_norm {dtype}, weight alone"] = torch.autograd.grad(y.square().sum(), w)[0].float().cpu().numpy()
        with_gradients(f"sum {dtype} over rows", results, lambda x: x.sum((0, 1)), x.detach())
        with_gradients(f"sum {dtype} over one", results, lambda x: x.sum(0), x.detach())
    for optimizer in (torch.optim.AdamW, torch.optim.Adam):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            p, g = draw(150, 129, dtype=dtype).requires_grad_(), draw(150, 129, dtype=dtype)
            o = optimizer([p], lr=0.1, weight_decay=0.1, maximize=dtype == torch.float64)
            for i in range(3):
                p.grad = g * (i - 0.5)
                o.step()
            for name, t in (("p", p), ("m", o.state[p]["exp_avg"]), ("v", o.state[p]["exp_avg_sq"])):
                results[f"{optimizer.__name__} {dtype} {name}"] = t.detach().float().cpu().numpy()
    for kwargs in (
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.5},
        {"maximize": True},
    ):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            p, g = draw(150, 129, dtype=dtype).requires_grad_(), draw(150, 129, dtype=dtype)
            o = torch.optim.SGD([p], lr=0.1, weight_decay=0.1, **kwargs)
            for i in range(3):
                p.grad = g * (i - 0.5)
                o.step()
            results[f"SGD {dtype} {kwargs} p"] = p.detach().float().cpu().numpy()
            if "momentum" in kwargs:
                results[f"SGD {dtype} {kwargs} b"] = o.state[p]["momentum_buffer"].detach().float().cpu().numpy()
    return results


def in_a_process(path, **environment):
    """Return the results of a new process, and the text of its programs."""
    script = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np, pytpu as torch
from test_kernel_calls import compute
torch.manual_seed(0)
np.savez({str(path)!r}, **compute("tpu"))
"""
    environment = {**os.environ, "TORCHTPU_CACHE": "0", **environment}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
    with np.load(path) as arrays:
        return dict(arrays)


def test_kernel_calls_agree_with_the_compiler_and_with_cpu(tmp_path):
    with_calls = in_a_process(tmp_path / "with.npz", TORCHTPU_DUMP_DIR=str(tmp_path / "with"))
    without = in_a_process(
        tmp_path / "without.npz", TORCHTPU_XLA_KERNELS="0", TORCHTPU_DUMP_DIR=str(tmp_path / "without")
    )
    torch.manual_seed(0)
    on_cpu = compute("cpu")
    assert with_calls.keys() == without.keys() == on_cpu.keys()
    programs = {folder: "".join(p.read_text() for p in (tmp_path / folder).iterdir()) for folder in ("with", "without")}
    if "XLA:CPU" in torch.tpu.get_device_name():
        for kernel in (
            "matmul",
            "linear",
            "conv",
            "conv_input_grad",
            "conv_weight_grad",
            "attention",
            "attention_backward",
            "max_pool",
            "max_pool_backward",
            "gelu",
            "gelu_backward",
            "layer_norm",
            "layer_norm_backward",
            "softmax",
            "softmax_backward",
            "angle",
            "cross_entropy",
            "cross_entropy_backward",
            "sum_rows",
            "adamw",
            "sgd",
            "matmul.windows",
            "linear.windows",
            "attention.windows",
            "attention_backward.windows",
        ):
            assert f'kernel = "{kernel}"' in programs["with"], kernel
    assert "custom_call" not in programs["without"]
    for name, want in on_cpu.items():
        # The results are sums of a few hundred products near one. 16-bit floats round each result.
        tolerance = {"torch.bfloat16": 3e-2, "torch.float16": 5e-3}.get(name.split()[1].strip(","), 2e-4)
        scale = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(with_calls[name], want, rtol=tolerance, atol=tolerance * scale, err_msg=name)
        np.testing.assert_allclose(without[name], want, rtol=tolerance, atol=tolerance * scale, err_msg=name)


def test_a_fully_masked_row_gives_zeros():
    q, k, v = (torch.randn(1, 2, 64, 16).to("tpu").requires_grad_() for _ in range(3))
    mask = torch.ones(64, 64, dtype=torch.bool)
    mask[5] = False
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to("tpu"))
    y.sum().backward()
    assert y[:, :, 5].cpu().abs().max().item() == 0
    assert q.grad.cpu().isfinite().all() and q.grad[:, :, 5].cpu().abs().max().item() == 0


def rows_of_softmax(device):
    """Rows with infinities and NaN, among enough others for a call."""
    inf, nan = float("inf"), float("nan")
    x = torch.linspace(-3, 3, 256 * 128).reshape(256, 128)
    x[0], x[1], x[2, 5], x[3, 7], x[4, 3:] = -inf, inf, nan, inf, -inf
    x = x.to(device).requires_grad_()
    results = []
    for y in (F.softmax(x, 1), F.log_softmax(x, 1), F.softmax(x, 0), torch.logsumexp(x, 1)):
        (gx,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        results += [y.detach().cpu().numpy(), gx.cpu().numpy()]
    return results


def test_rows_of_infinities_and_nan_are_as_on_cpu():
    for i, (got, want) in enumerate(zip(rows_of_softmax("tpu"), rows_of_softmax("cpu"))):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=str(i))


def test_a_target_that_is_no_class_raises_when_the_host_reads():
    x = torch.randn(300, 90).to("tpu").requires_grad_()
    target = torch.full((300,), 4)
    target[7] = 90
    loss = F.cross_entropy(x, target.to("tpu"))
    loss.backward()
    with pytest.raises(IndexError, match="Target 90 is out of bounds."):
        loss.item()


def test_views_that_are_kept_for_backward_are_made_anew(tmp_path):
    script = """
import pytpu as torch
from pytpu.nn import functional as F
x = torch.randn(2, 40, 3 * 48).to("tpu").requires_grad_()
def heads(x):
    return [z.view(2, 40, 4, 12).transpose(1, 2) for z in x.split(48, dim=2)]
y = F.scaled_dot_product_attention(*heads(x * 2))
torch.tpu.mark_step()
y.sum().backward()
torch.tpu.mark_step()
"""
    environment = {**os.environ, "TORCHTPU_CACHE": "0", "TORCHTPU_DUMP_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
    forward, backward = (p.read_text() for p in sorted(tmp_path.iterdir()))
    results = next(line for line in forward.splitlines() if line.strip().startswith("return")).split(" : ")[1]
    assert results.count("tensor<2x40x144xf32>") == 1, results
    if "XLA:CPU" in torch.tpu.get_device_name():
        # The results are the doubled tensor, the attention's output and its statistics, but no query, key or value.
        assert results.count("tensor<") == 3, results
    assert "2x40x144xf32" in next(line for line in backward.splitlines() if "@main" in line)


def test_every_mode_calls_kernels_unless_told_not_to(tmp_path):
    script = """
import sys, pytpu as torch
torch.tpu.set_eager_mode(sys.argv[1])
x = torch.ones(64, 64).to("tpu")
y = (x @ x).sum().item()
assert y == 64 ** 3, y
"""
    on_cpu = "XLA:CPU" in torch.tpu.get_device_name()
    for use, mode in (("1", "fused"), ("1", "strict"), ("1", "debug"), ("0", "fused")):
        folder = tmp_path / (use + mode)
        environment = {
            **os.environ,
            "TORCHTPU_CACHE": "0",
            "TORCHTPU_XLA_KERNELS": use,
            "TORCHTPU_DUMP_DIR": str(folder),
        }
        subprocess.run([sys.executable, "-c", script, mode], check=True, env=environment)
        programs = "".join(p.read_text() for p in folder.iterdir())
        assert ('kernel = "matmul"' in programs) == (use == "1" and on_cpu), (use, mode)


@pytest.mark.parametrize("mode", ["fused", "strict", "debug"])
def test_calls_work_in_every_mode_and_with_second_gradients(mode):
    before = torch.tpu.eager_mode()
    torch.tpu.set_eager_mode(mode)
    try:
        for device in ("cpu", "tpu"):
            torch.manual_seed(0)
            x = torch.randn(4, 8, 12, 12).to(device).requires_grad_()
            w = torch.randn(8, 8, 3, 3).to(device).requires_grad_()
            y = F.max_pool2d(F.conv2d(x, w, padding=1), 2)
            q = y.reshape(4, 1, 36, 8)
            z = F.scaled_dot_product_attention(q, q, q)
            (gx,) = torch.autograd.grad(z.square().sum(), x, create_graph=True)
            gw = torch.autograd.grad(gx.square().sum(), w)[0].cpu()
            if device == "cpu":
                want = gw
        assert (gw - want).abs().max().item() <= 1e-3 * want.abs().max().item()
    finally:
        torch.tpu.set_eager_mode(before)


@pytest.mark.parametrize(
    ("optimizer", "settings", "kernel", "operands", "alias"),
    [
        ("AdamW", {"lr": 1e-2}, "adamw", {12, 13}, (1, 2)),
        ("SGD", {"lr": 1e-1}, "sgd", {6, 7}, (0, 0)),
        ("SGD", {"lr": 1e-2, "momentum": 0.9}, "sgd", {7, 8}, (1, 2)),
    ],
)
def test_an_update_in_place_waits_for_reads_of_the_weight(tmp_path, optimizer, settings, kernel, operands, alias):
    """The gradient of the second layer's input reads the weight that the optimiser overwrites in the same program."""
    script = """
import json, sys, numpy as np, pytpu as torch
from pytpu import nn
device = sys.argv[1]
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(150, 160), nn.Tanh(), nn.Linear(160, 170), nn.Tanh(), nn.Linear(170, 130)).to(device)
optimizer = getattr(torch.optim, sys.argv[3])(net.parameters(), **json.loads(sys.argv[4]))
x, y = torch.randn(140, 150).to(device), torch.randn(140, 130).to(device)
for _ in range(6):
    optimizer.zero_grad()
    loss = (net(x) - y).square().mean()
    loss.backward()
    optimizer.step()
weights = {n.replace(".", ""): p.detach().cpu().numpy() for n, p in net.named_parameters()}
np.savez(sys.argv[2], loss=loss.item(), **weights)
"""
    results = {}
    for device in ("cpu", "tpu"):
        path, environment = (
            tmp_path / f"{device}.npz",
            {**os.environ, "TORCHTPU_CACHE": "0", "TORCHTPU_DUMP_DIR": str(tmp_path / "dump")},
        )
        arguments = [device, str(path), optimizer, json.dumps(settings)]
        subprocess.run([sys.executable, "-c", script, *arguments], check=True, env=environment)
        with np.load(path) as arrays:
            results[device] = dict(arrays)
    for name, want in results["cpu"].items():
        np.testing.assert_allclose(results["tpu"][name], want, rtol=1e-3, atol=1e-4, err_msg=name)
    if "XLA:CPU" in torch.tpu.get_device_name():
        programs = "".join(p.read_text() for p in (tmp_path / "dump").iterdir())
        steps = [line for line in programs.splitlines() if f'kernel = "{kernel}"' in line]
        # The kernel's operands, and sometimes one more, for a read that must come first.
        assert {line.split("(")[1].split(")")[0].count(",") + 1 for line in steps} == operands, steps[0]
        result, operand = alias
        text = f"output_operand_alias<output_tuple_indices = [{result}], operand_index = {operand}"
        # The first step of momentum makes the buffer, so it has no alias.
        assert sum(text in line for line in steps) * 2 >= len(steps) > 0
