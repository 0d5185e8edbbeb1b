"""Attention and transformer encoders: masks and padding."""

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F


def test_attention_weights_sum_to_one_and_mask_is_obeyed(device):
    layer = nn.MultiheadAttention(8, 2, batch_first=True).to(device)
    x = torch.randn(2, 5, 8, device=device)
    mask = nn.Transformer.generate_square_subsequent_mask(5, device=device)
    out, weights = layer(x, x, x, attn_mask=mask)
    assert out.shape == (2, 5, 8)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 5, device=device), atol=1e-5)
    assert float(weights.triu(1).abs().max()) == 0
    fast, none = layer(x, x, x, attn_mask=mask, need_weights=False)
    assert none is None and torch.allclose(fast, out, atol=1e-5)


def test_attention_keeps_the_layout_of_heads(device):
    """The result keeps the input's layout, as in PyTorch, so that heads are joined without a copy."""
    b, length, h, e = 2, 5, 3, 4
    qkv = torch.randn(b, length, 3 * h * e, device=device).requires_grad_()
    q, k, v = (z.view(b, length, h, e).transpose(1, 2) for z in qkv.split(h * e, dim=2))
    y = F.scaled_dot_product_attention(q, k, v)
    assert y.shape == (b, h, length, e) and y.transpose(1, 2).is_contiguous()
    assert F.scaled_dot_product_attention(*(z.contiguous() for z in (q, k, v))).is_contiguous()
    y.transpose(1, 2).reshape(b, length, h * e).sum().backward()
    assert qkv.grad.is_contiguous() and qkv.grad.shape == qkv.shape


def test_encoder_is_causal_under_a_causal_mask(device):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).to(device).eval()
    x = torch.randn(1, 4, 8, device=device)
    mask = nn.Transformer.generate_square_subsequent_mask(4, device=device)
    changed = x.clone()
    changed[:, 3] += 1
    a, b = model(x, mask=mask), model(changed, mask=mask)
    assert torch.allclose(a[:, :3], b[:, :3], atol=1e-5) and not torch.allclose(a[:, 3], b[:, 3])


def test_an_encoder_gives_zeros_for_padding_without_gradients(device):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).to(device).eval()
    x = torch.randn(2, 4, 8, device=device)
    padding = torch.tensor([[False, False, True, True], [False, False, False, True]], device=device)

    def zeros(**kw):
        return (encoder(x, **kw) == 0).all(-1).tolist()

    nowhere = [[False] * 4] * 2
    recorded = encoder(x, src_key_padding_mask=padding)
    assert (recorded == 0).all(-1).tolist() == nowhere
    with torch.no_grad():
        assert zeros(src_key_padding_mask=padding) == padding.tolist()
        kept = encoder(x, src_key_padding_mask=padding)[~padding]
        assert torch.allclose(kept, recorded[~padding], atol=1e-6)
        assert zeros(src_key_padding_mask=padding.flip(1)) == nowhere  # padding before the sequences
        causal = torch.ones(4, 4, dtype=torch.bool, device=device).triu(1)
        assert zeros(src_key_padding_mask=padding, mask=causal) == nowhere
        encoder.train()
        assert zeros(src_key_padding_mask=padding) == nowhere


@pytest.mark.parametrize(
    "settings, reason",
    [
        ({"norm_first": True, "batch_first": True}, "norm_first was True"),
        ({}, "batch_first was not True"),
        ({"bias": False, "batch_first": True}, "bias=False"),
        ({"activation": torch.tanh, "batch_first": True}, "activation_relu_or_gelu was not True"),
    ],
)
def test_an_encoder_warns_why_it_keeps_padding(settings, reason):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 8, **settings)
    with pytest.warns(
        UserWarning, match="enable_nested_tensor is True, but self.use_nested_tensor is False because.*" + reason
    ):
        torch.nn.TransformerEncoder(layer, 1)
