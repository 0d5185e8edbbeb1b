"""Modules and functions become graphs, and graphs become code with PyTorch's text."""

import pytest

import pytpu as torch
from pytpu import fx, nn
from pytpu.fx.proxy import TraceError


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x, y=2):
        return torch.relu(self.linear(x) + self.scale) * y


# PyTorch 2.15 writes this text.
CODE = """


def forward(self, x, y = 2):
    linear = self.linear(x);  x = None
    scale = self.scale
    add = linear + scale;  linear = scale = None
    relu = torch.relu(add);  add = None
    mul = relu * y;  relu = y = None
    return mul
    """


def test_the_code_of_a_module_is_pytorchs():
    module = Block()
    traced = fx.symbolic_trace(module)
    assert traced.code == CODE
    x = torch.randn(3, 4)
    assert torch.equal(traced(x), module(x)) and torch.equal(traced(x, 5), module(x, 5))
    assert type(traced).__name__ == "Block" and traced.linear is module.linear


def test_conditions_on_traced_values_are_refused():
    with pytest.raises(TraceError, match="symbolically traced variables cannot be used as inputs to control flow"):
        fx.symbolic_trace(lambda x: x if x else -x)


def test_marks_of_tracing():
    assert not isinstance(torch.ones(1), fx.Proxy)
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        fx.wrap(len)
    with pytest.raises(RuntimeError, match="Unsupported type for global function!"):
        fx.wrap(3)
