"""Losses against NumPy."""

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F


def test_margin_losses(device, close):
    x = torch.tensor([[0.1, 0.2, 0.4, 0.8]], device=device)
    close(F.multi_margin_loss(x, torch.tensor([3], device=device)), 0.325)
    close(F.multilabel_margin_loss(x, torch.tensor([[3, 0, -1, 1]], device=device)), 0.85)
    with pytest.raises(RuntimeError, match="target out of range"):
        F.multi_margin_loss(x, torch.tensor([4], device=device)).cpu()


def test_distances_of_equal_rows_have_no_gradient(device, close):
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], device=device, requires_grad=True)
    d = torch.cdist(x, x.detach())
    close(d, [[0, 5], [5, 0]])
    d.sum().backward()
    close(x.grad, [[-0.6, -0.8], [0.6, 0.8]])
    close(torch.pdist(x), [5])
    with pytest.raises(ValueError, match="fast is not a valid value for compute_mode"):
        torch.cdist(x, x, compute_mode="fast")


def rand(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_cross_entropy(device, close):
    x, target = rand(4, 3), np.array([0, 2, 1, -100])
    log_p = x - np.log(np.exp(x).sum(-1, keepdims=True))
    picked = -log_p[np.arange(3), target[:3]]
    t, y = torch.tensor(x, device=device), torch.tensor(target, device=device)
    close(nn.CrossEntropyLoss()(t, y), picked.mean(), rtol=1e-4)
    close(nn.CrossEntropyLoss(reduction="none")(t, y), [*picked, 0], rtol=1e-4)
    weight = torch.tensor([1.0, 2.0, 3.0], device=device)
    w = np.array([1.0, 3.0, 2.0])
    close(nn.CrossEntropyLoss(weight)(t, y), (picked * w).sum() / w.sum(), rtol=1e-4)
    with pytest.raises(ValueError, match="other is not a valid value for reduction"):
        F.cross_entropy(t, y, reduction="other")


@pytest.mark.parametrize(
    "loss, formula",
    [
        (nn.L1Loss(), lambda x, y: np.abs(x - y).mean()),
        (nn.MSELoss(), lambda x, y: ((x - y) ** 2).mean()),
        (nn.SmoothL1Loss(), lambda x, y: np.where(abs(x - y) < 1, (x - y) ** 2 / 2, abs(x - y) - 0.5).mean()),
        (
            nn.HuberLoss(delta=0.5),
            lambda x, y: np.where(abs(x - y) < 0.5, (x - y) ** 2 / 2, 0.5 * (abs(x - y) - 0.25)).mean(),
        ),
        (nn.BCEWithLogitsLoss(), lambda x, y: (np.log1p(np.exp(-abs(x))) + np.maximum(x, 0) - x * y).mean()),
        (nn.PoissonNLLLoss(), lambda x, y: (np.exp(x) - y * x).mean()),
    ],
    ids=lambda value: getattr(value, "_get_name", lambda: "")(),
)
def test_losses_with_simple_formulas(loss, formula, device, close):
    x, y = rand(5, 2), np.abs(rand(5, 2))[::-1].copy()
    close(loss(torch.tensor(x, device=device), torch.tensor(y, device=device)), formula(x, y), rtol=1e-4)


def test_warnings_of_attention_and_init_equal_pytorchs():
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1, enable_nested_tensor=False
    )
    padding = torch.zeros(1, 3, dtype=torch.bool)
    with pytest.warns(UserWarning, match="Support for mismatched src_key_padding_mask and mask is deprecated"):
        encoder(torch.ones(1, 3, 4), mask=torch.zeros(3, 3), src_key_padding_mask=padding)
    with pytest.warns(UserWarning, match="Support for mismatched src_key_padding_mask and src_mask is deprecated"):
        encoder.layers[0](torch.ones(1, 3, 4), src_mask=torch.zeros(3, 3), src_key_padding_mask=padding)
    with pytest.warns(UserWarning, match="mean is more than 2 std from .* in nn.init.trunc_normal_"):
        nn.init.trunc_normal_(torch.empty(2), mean=5.0)
