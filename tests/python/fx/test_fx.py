"""`torch.fx` without symbolic tracing."""

import pytest

import pytpu as torch
from pytpu import nn


def test_marks_of_tracing():
    assert torch.fx.wrap(len) is len and torch.fx.wrap("len") == "len"
    assert not isinstance(torch.ones(1), torch.fx.Proxy)
    with pytest.raises(NotImplementedError, match="graphs of Python code are not made"):
        torch.fx.symbolic_trace(nn.Linear(1, 1))
