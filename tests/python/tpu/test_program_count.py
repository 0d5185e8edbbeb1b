"""Positions given as numbers compile no new program."""

import random

import pytest

import pytpu as torch
from pytpu.testing import assert_close


@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_batches_drawn_from_a_buffer_compile_one_program(join):
    now = [torch.full((1, 4), float(k)).to("tpu") for k in range(100)]
    then = now[1:] + now[:1]
    draw = random.Random(0)

    def batch():
        at = draw.sample(range(100), 32)
        change = join([then[k] for k in at]) - join([now[k] for k in at])
        assert change.reshape(32, 4)[:, 0].tolist() == [1.0 if k < 99 else -99.0 for k in at]

    batch()
    before = torch.tpu.compilation_count()
    for _ in range(5):
        batch()
    assert torch.tpu.compilation_count() == before
    assert now[0].tolist() == [[0, 0, 0, 0]]


def _reads(x, i):
    return x[i] * 2 + x[:, i : i + 2].sum()


def _writes(x, i):
    y = x.clone()
    y[i] = y[i + 1] + i
    y[:, i] += 1
    y[i, i] = -7
    y[i : i + 5 : 2] *= 3
    return y


def _rolls(x, i):
    return x.roll(i, 0) + x.roll((i, -i), (0, 1))


def _windows(x, i):
    # More than four ops: smaller programs are compiled for a few positions first.
    return x.as_strided((3, 2), (13, 2), i) * 2 + x.flatten()[i:].as_strided((3, 2), (12, 1)) * 3


def _gradients(x, i):
    w = x.detach().requires_grad_()
    y = w * 1
    y[i] = 2 * w[i + 2]
    (y[:, i].pow(2).sum() + w[i : i + 6 : 3].prod() + (w.roll(i, 1) * x).sum()).backward()
    return w.grad


def _second_gradients(x, i):
    w = x.detach().requires_grad_()
    (g,) = torch.autograd.grad((w[i] ** 3).sum() + (w[:, i : i + 2] ** 2).sum(), w, create_graph=True)
    (g * x).sum().backward()
    return w.grad


def _pads(x, i):
    w = x.detach().requires_grad_()
    y = torch.nn.functional.pad(w, (i, 4 - i, 4 - i, i), value=0.5)
    (g,) = torch.autograd.grad((y**3).sum(), w, create_graph=True)
    (g**2).sum().backward()
    return y.detach(), w.grad


@pytest.mark.parametrize("program", [_pads, _reads, _writes, _rolls, _windows, _gradients, _second_gradients])
def test_a_number_as_a_position_compiles_no_new_program(program):
    x = torch.arange(120.0).reshape(10, 12).cos()
    on_tpu = x.to("tpu")
    for i in [0, 1, 2]:
        assert_close(program(on_tpu, i), program(x, i), check_device=False)
    before = torch.tpu.compilation_count()
    for i in [3, 1, 2, 4, 3]:
        assert_close(program(on_tpu, i), program(x, i), check_device=False)
    assert torch.tpu.compilation_count() == before


@pytest.mark.parametrize("dtype", [torch.float64, torch.int8, torch.bool, torch.complex64, torch.bfloat16])
def test_positions_in_tensors_of_every_dtype(dtype):
    x = (torch.arange(24).reshape(6, 4) % 5).to(dtype)
    on_tpu = x.to("tpu")
    for i in range(4):
        y, z = x.clone(), on_tpu.clone()
        for t in (y, z):
            t[i::2] = t[i].clone()
            t[:, i] = t[i, i].clone()
            t[i : i + 2, 1:3] = 1
            t[i : i + 2, 0] = t[4:6, i]
        assert z.tolist() == y.tolist()


def test_a_buffer_filled_in_a_loop_compiles_few_programs():
    steps = torch.zeros(300, 4, device="tpu")
    x = torch.ones(4, device="tpu")
    before = torch.tpu.compilation_count()
    for i in range(300):
        steps[i] = x * i
    assert steps[:, 2].tolist() == list(range(300))
    for i in range(300):
        steps[i, 1] = steps[299 - i, 2].item()
    assert steps[:, 1].tolist() == list(range(299, -1, -1))
    assert torch.tpu.compilation_count() - before < 20
