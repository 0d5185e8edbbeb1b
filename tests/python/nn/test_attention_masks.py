"""Masks of attention in another dtype than the queries, as PyTorch's own masks are."""

import pytest

import pytpu as torch
import pytpu.nn.functional as F
from pytpu import nn


def operands(dtype, device):
    torch.manual_seed(3)
    q, k, v = (torch.randn(2, 2, 5, 8).to(device, dtype) for _ in range(3))
    mask = torch.randn(5, 5).to(device)
    mask[0, 1:] = -torch.inf
    return q, k, v, mask


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("way", ["fused", "trained mask"])
def test_a_float32_mask_is_added_in_full_precision(dtype, way, device):
    q, k, v, mask = operands(dtype, device)
    wide = [t.float().requires_grad_() for t in (q, k, v)]
    narrow = [t.requires_grad_() for t in (q, k, v)]
    others = mask.clone().requires_grad_(way != "fused")
    mask = mask.requires_grad_(way != "fused")
    want = F.scaled_dot_product_attention(*wide, attn_mask=mask)
    got = F.scaled_dot_product_attention(*narrow, attn_mask=others)
    assert got.dtype == dtype
    bound = {torch.bfloat16: 4e-2, torch.float16: 5e-3, torch.float64: 1e-5}[dtype]
    torch.testing.assert_close(got.float(), want, rtol=bound, atol=bound)
    g = torch.ones_like(want)
    want.backward(g)
    got.backward(g.to(dtype))
    for a, b in zip(narrow, wide):
        assert a.grad.dtype == dtype
        torch.testing.assert_close(a.grad.float(), b.grad, rtol=bound, atol=bound)
    if way != "fused":
        assert others.grad.dtype == torch.float32
        torch.testing.assert_close(others.grad, mask.grad, rtol=bound, atol=bound)


def test_a_mask_keeps_differences_that_16_bits_cannot_hold(device):
    # Scores of zero, so the mask alone decides: 256 and 256.5 are the same number in bfloat16.
    q = torch.zeros(1, 1, 1, 8, dtype=torch.bfloat16, device=device)
    k = torch.zeros(1, 1, 2, 8, dtype=torch.bfloat16, device=device)
    v = torch.tensor([0.0, 1.0], device=device).bfloat16().view(1, 1, 2, 1)
    mask = torch.tensor([[256.0, 256.5]], device=device)
    got = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert got.item() == pytest.approx(0.6225, abs=4e-3)


@pytest.mark.parametrize("mask", [torch.float64, torch.float16, torch.int32])
def test_other_dtypes_are_refused(mask, device):
    q, k, v, m = operands(torch.bfloat16, device)
    with pytest.raises(RuntimeError, match="Expected attn_mask dtype to be bool or float or to match query dtype"):
        F.scaled_dot_product_attention(q, k, v, attn_mask=torch.zeros(5, 5, device=device).to(mask))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_transformers_of_other_dtypes_take_the_mask_of_pytorch(dtype, device):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).to(device, dtype)
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True).to(device, dtype)
    mask = nn.Transformer.generate_square_subsequent_mask(4).to(device)
    assert mask.dtype == torch.float32
    x = torch.randn(2, 4, 8).to(device, dtype)
    for evaluates in (False, True):
        layer.train(not evaluates)
        model.train(not evaluates)
        y = layer(x, src_mask=mask, is_causal=True)
        z = layer(x, src_mask=mask)
        torch.testing.assert_close(y, z)
        assert y.dtype == dtype and model(x, x, src_mask=mask, tgt_mask=mask).dtype == dtype
        late = x.clone()
        late[:, 3] = 9.0
        torch.testing.assert_close(layer(late, src_mask=mask)[:, :3], z[:, :3])
    attention = nn.MultiheadAttention(8, 2, batch_first=True).to(device, dtype)
    y, weights = attention(x, x, x, attn_mask=mask, need_weights=False)
    assert y.dtype == dtype and weights is None
