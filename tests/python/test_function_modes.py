"""`TorchFunctionMode` sees the calls of a block."""

import threading

import pytest

import pytpu as torch
import pytpu.nn.functional as F
from pytpu.overrides import BaseTorchFunctionMode, TorchFunctionMode


class Log(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_modes_see_functions_operators_and_methods():
    x = torch.ones(2, 3)
    with Log() as log:
        y = x + 1
        torch.zeros(2)
        F.relu(x)
        x.sum()
        x[0] = x[1]
        -x
        x *= 2
        torch.cat([x, x])
        torch.nn.init.constant_(x, 3.0)
        x > 1
    assert log.names == [
        *("add", "zeros", "relu", "sum", "__getitem__", "__setitem__", "neg", "mul_", "cat", "constant_", "gt"),
    ]
    assert y.tolist() == [[2.0] * 3] * 2
    x + 1
    assert len(log.names) == 11


def test_modes_change_results():
    class Tenfold(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 10 if func is torch.add else result

    with Tenfold():
        assert torch.add(torch.ones(1), 1).item() == 20
    with BaseTorchFunctionMode():
        assert (torch.ones(1) + 1).item() == 2


def test_the_innermost_mode_runs_first():
    outer, inner = Log(), Log()
    with outer, inner:
        torch.add(torch.ones(1), 1)
    assert outer.names == inner.names == ["ones", "add"]


def test_modes_end_with_their_block_whatever_happens():
    class Failing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise ValueError("no")

    class Refusing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(ValueError, match="no"), Failing():
        torch.ones(1)
    with pytest.raises(TypeError, match="Multiple dispatch failed"), Refusing():
        torch.ones(1)
    assert (torch.ones(1) + 1).item() == 2


def test_a_mode_affects_one_thread():
    found = []
    with Log() as log:
        thread = threading.Thread(target=lambda: found.append((torch.ones(2) + 1).sum().item()))
        thread.start()
        thread.join()
    assert found == [4.0] and log.names == []


def test_operators_reach_overrides_as_functions():
    seen = []

    class Told(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Told)
    for call in (lambda: x + 1, lambda: 1 + x, lambda: x - 1, lambda: x / 2, lambda: +x, lambda: x == x):
        call()
    t = torch.Tensor
    assert seen == [t.add, t.add, t.sub, t.div, t.positive, t.__eq__]
