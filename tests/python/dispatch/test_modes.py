"""Modes below autograd: ``TorchDispatchMode``."""

import importlib.util
import json
import pathlib

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
)

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens"
CALLS = json.loads((GOLDENS / "dispatch_calls.json").read_text())
spec = importlib.util.spec_from_file_location("record_dispatch_calls", GOLDENS / "record_dispatch_calls.py")
recorder = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recorder)


class Log(TorchDispatchMode):
    """Note the names of calls."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", CALLS)
def test_a_mode_gets_the_calls_of_pytorch(name):
    assert recorder.calls(torch, recorder.PROGRAMS[name]) == CALLS[name]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_mode_that_calls_the_operator_changes_nothing(device):
    def train(steps):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(144, 3)
        ).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), 0.01, fused=False)
        losses = []
        for _ in range(steps):
            x, y = torch.randn(4, 1, 8, 8), torch.randint(3, (4,))
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    wanted = train(3)
    with Log() as log:
        assert train(3) == pytest.approx(wanted, rel=1e-5)
    assert {"aten.convolution.default", "aten.native_batch_norm.default", "aten.addmm.default"} <= {*log.names}


def test_gradient_formulas_reach_the_mode():
    a, w = torch.ones(2, 3), torch.ones(4, 3, requires_grad=True)
    with Log() as log:
        nn.functional.linear(a, w).relu().sum().backward()
    assert log.names[:4] == ["aten.t.default", "aten.mm.default", "aten.relu.default", "aten.sum.default"]
    assert "aten.threshold_backward.default" in log.names[4:] and "aten.mm.default" in log.names[4:]
    assert w.grad.tolist() == [[2.0] * 3] * 4


def test_inner_modes_come_first_and_see_nothing_of_their_own():
    order = []

    class Named(TorchDispatchMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            torch.zeros(1)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Named("outer") as outer, Named("inner") as inner:
        assert _get_current_dispatch_mode() is inner
        assert _get_current_dispatch_mode_stack() == [outer, inner]
        x + 1
        with _disable_current_modes() as modes:
            assert modes == [outer, inner]
            x + 1
    # Each call of the inner mode, `zeros` and the sum, reaches the outer one.
    assert order == ["inner", "outer", "outer"]
    assert _get_current_dispatch_mode() is None


def test_an_outer_mode_sees_operators_after_an_inner_one_has_ended():
    x = torch.ones(2, 2)
    with Log() as outer:
        with Log():
            pass
        x[0]
        x + x
    assert outer.names == ["aten.select.int", "aten.add.Tensor"]


def test_a_mode_may_answer_with_another_value():
    class Twice(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            y = func(*args, **(kwargs or {}))
            return y * 2 if func is torch.ops.aten.add.Tensor else y

    x = torch.ones(2, requires_grad=True)
    with Twice():
        y = x + 1
    assert y.tolist() == [4.0, 4.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_errors_of_a_mode_reach_the_caller_and_leave_the_modes_in_order():
    class Fails(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise ZeroDivisionError(str(func))

    mode = Fails()
    with mode, pytest.raises(ZeroDivisionError, match=r"aten\.exp\.default"):
        torch.ones(2).exp() if False else torch.exp(torch.Tensor([1.0]))
    assert _get_current_dispatch_mode_stack() == []
    w = torch.ones(2, requires_grad=True)
    loss = (w * w).sum()
    with Fails(), pytest.raises(ZeroDivisionError):
        loss.backward()


def test_a_mode_may_not_refuse():
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    x = torch.ones(2)
    with Refuses(), pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch\.ops\.aten\.mul\.Tensor'"):
        torch.mul(x, x)


def test_operators_refuse_in_the_same_words_inside_a_mode():
    with Log() as mode, pytest.raises(TypeError, match="only implemented on integer and Boolean-type tensors"):
        ~torch.ones(2)
    assert "aten.bitwise_not.default" not in mode.names


def test_ops_without_an_aten_operator_are_named_and_computed():
    x = torch.eye(3) * 2
    with Log() as log:
        y = torch.linalg.inv(x)
    assert torch.equal(y, torch.eye(3) / 2)
    assert any(name.startswith("prims.") for name in log.names)


def test_kernels_of_a_library_take_the_place_of_those_of_aten():
    x = torch.ones(2)
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("neg", lambda a: a * 10, "CPU")
        library.impl("aten::mul.Tensor", lambda a, b: torch.ops.aten.mul.Tensor(a, b) + 100, "CPU")
        assert torch.neg(x).tolist() == [110.0, 110.0]
        assert (x.to("meta") * 2).device.type == "meta"
    finally:
        library._destroy()
    assert torch.neg(x).tolist() == [-1.0, -1.0] and (x * 2).tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        torch.library.Library("aten", "DEF")


def test_operators_of_a_library_are_seen_and_answered():
    @torch.library.custom_op("seen::tenfold", mutates_args=())
    def tenfold(x: torch.Tensor) -> torch.Tensor:
        return x * 10

    tenfold.register_autograd(lambda ctx, g: g * 10)
    x = torch.ones(2, requires_grad=True)
    with Log() as log:
        tenfold(x).sum().backward()
    assert log.names[0] == "seen.tenfold.default" and x.grad.tolist() == [10.0, 10.0]

    class Tenth(TorchDispatchMode):
        pass

    @torch.library.register_torch_dispatch("seen::tenfold", Tenth)
    def answer(mode, func, types, args, kwargs):
        return args[0] / 10

    y = torch.ones(1)
    with Tenth():
        z = tenfold(y)
        with pytest.raises(NotImplementedError):
            torch.neg(y)
    assert z.tolist() == [pytest.approx(0.1)]


def test_operators_of_a_library_have_dtypes_for_autocast():
    @torch.library.custom_op("seen::same", mutates_args=())
    def same(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    torch.library.register_autocast(same, "cpu", torch.bfloat16)
    with torch.autocast("cpu"):
        assert same(torch.ones(1)).dtype == torch.bfloat16
        assert same(torch.ones(1, dtype=torch.float64)).dtype == torch.float64
    assert same(torch.ones(1)).dtype == torch.float32
    with pytest.raises(NotImplementedError, match="should never be called"):
        torch.library.fallthrough_kernel()
