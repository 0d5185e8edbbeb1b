"""`torch.nn.init`: bounds and errors."""

import math

import pytest

import pytpu as torch
from pytpu import nn


def test_init_bounds_and_errors():
    w = torch.empty(8, 4, 3, 3)
    bound = math.sqrt(3.0) * math.sqrt(2.0 / (1 + 5)) / math.sqrt(36)
    nn.init.kaiming_uniform_(w, a=math.sqrt(5))
    assert float(w.abs().max()) <= bound
    nn.init.trunc_normal_(w, a=-0.1, b=0.1)
    assert float(w.abs().max()) <= 0.1 + 1e-7
    nn.init.orthogonal_(q := torch.empty(3, 5))
    assert torch.allclose(q @ q.t(), torch.eye(3), atol=1e-5)
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(torch.empty(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity nope"):
        nn.init.calculate_gain("nope")
