"""Dropout: mean, eval mode, random order, in-place forms."""

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F


def test_dropout_keeps_the_mean_and_is_off_in_eval(device):
    layer, x = nn.Dropout(0.25), torch.ones(10000, device=device)
    y = layer(x)
    assert abs(float(y.mean()) - 1) < 0.05
    assert torch.equal(y[y != 0], torch.full_like(y[y != 0], 1 / 0.75))
    assert torch.equal(layer.eval()(x), x)
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        nn.Dropout(2)


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "dropout2d", "feature_alpha_dropout"])
def test_dropout_in_place_without_effect_writes_nothing(name, device):
    f = getattr(torch.nn.functional, name)
    x = torch.randn(2, 3, 4, 5, device=device, requires_grad=True)
    for p, training in ((0.5, False), (0.0, True)):
        y = x.softmax(-1)
        assert f(y, p, training, inplace=True) is y and y._version == 0
        (y * y).sum().backward()
        assert f(x, p, training, inplace=True) is x
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        f(x, 0.5, True, inplace=True)
    with pytest.raises((RuntimeError, ValueError), match="dropout probability has to be between 0 and 1"):
        f(x, 1.5, False, inplace=True)
    y = torch.ones(4, 50, 2, 2, device=device)
    assert f(y, 0.5, True, inplace=True) is y and y._version > 0 and len(y.unique()) == 2


def test_dropout_draws_in_the_order_of_memory():
    torch.manual_seed(0)
    assert F.dropout(torch.ones(2, 3).t(), 0.5).tolist() == [[0, 0], [0, 0], [2, 0]]
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    torch.manual_seed(1)
    y = layer(torch.arange(48.0).view(2, 3, 8) / 10)[1, 0, :2]
    assert torch.allclose(y, torch.tensor([-1.1500, -1.0826]), atol=1e-4)
