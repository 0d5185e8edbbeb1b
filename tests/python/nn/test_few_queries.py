"""Attention of few queries over many keys, such as the next token's over a cache."""

import math

import pytest

import pytpu as torch
import pytpu.nn.functional as F

TOLERANCES = {torch.float32: 2e-6, torch.bfloat16: 4e-3, torch.float16: 5e-4}


def exact(q, k, v, mask=None, scale=None):
    q, k, v = q.double(), k.double(), v.double()
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-2, -1) * (scale or 1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.double()
    return scores.softmax(-1) @ v


def operands(b, heads, kv, rows, s, e, ev, dtype):
    return (
        torch.randn(b, heads, rows, e).to(dtype),
        torch.randn(b, kv, s, e).to(dtype),
        torch.randn(b, kv, s, ev).to(dtype),
    )


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 4, 2, 1, 700, 64, 64),
        (2, 6, 2, 1, 256, 33, 20),
        (1, 8, 1, 1, 513, 16, 16),
        (2, 3, 3, 8, 300, 40, 24),
        (1, 4, 2, 5, 257, 64, 8),
        (1, 2, 1, 3, 2, 5, 1),
        (1, 4, 2, 12, 300, 32, 32),
    ],
)
def test_grouped_heads_and_masks(sizes, dtype):
    b, heads, kv, rows, s, e, ev = sizes
    q, k, v = operands(*sizes, dtype)
    seen = torch.rand(b, heads, rows, s) > 0.3
    seen[..., 0] = True
    added = torch.randn(rows, s).to(dtype)
    tolerance = TOLERANCES[dtype] * 2
    with torch.no_grad():
        for mask, scale in ((None, None), (seen, None), (seen[:1, :1], 0.2), (added, None)):
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)
            assert y.dtype == dtype and y.shape == (b, heads, rows, ev)
            assert (y.double() - exact(q, k, v, mask, scale)).abs().max() <= tolerance * 2
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        triangle = torch.ones(rows, s, dtype=torch.bool).tril()
        assert (y.double() - exact(q, k, v, triangle)).abs().max() <= tolerance * 2


def test_a_cache_is_read_through_its_strides():
    # The keys of a layer as `[b, s, h, e]`, and a window of a longer cache.
    q, k, v = operands(1, 4, 2, 1, 600, 32, 32, torch.bfloat16)
    cache = torch.zeros(1, 1000, 2, 40, dtype=torch.bfloat16)
    window = cache.transpose(1, 2)[:, :, 100:700, 4:36]
    window.copy_(k)
    with torch.no_grad():
        a = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        assert torch.equal(a, F.scaled_dot_product_attention(q, window, v, enable_gqa=True))
        turned = q.transpose(1, 2).contiguous().transpose(1, 2)
        assert torch.equal(a, F.scaled_dot_product_attention(turned, window, v, enable_gqa=True))


def test_queries_that_see_no_key_give_zeros():
    q, k, v = operands(1, 2, 1, 2, 600, 8, 8, torch.float32)
    mask = torch.ones(2, 600, dtype=torch.bool)
    mask[1] = False
    mask[0, :300] = False
    with torch.no_grad():
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    assert not y[:, :, 1].any()
    assert torch.allclose(y[:, :, :1].double(), exact(q, k, v, mask)[:, :, :1], atol=1e-5)


def test_nan_in_a_key_reaches_its_queries_alone():
    q, k, v = operands(1, 2, 2, 1, 600, 8, 8, torch.float32)
    k[0, 1, 599, 0] = math.nan
    with torch.no_grad():
        y = F.scaled_dot_product_attention(q, k, v)
    assert y[0, 1].isnan().all() and not y[0, 0].isnan().any()


def test_gradients_are_those_of_repeated_heads():
    q, k, v = (t.double().requires_grad_() for t in operands(1, 4, 2, 1, 300, 8, 8, torch.float32))
    x32 = [t.detach().float().requires_grad_() for t in (q, k, v)]
    exact(q, k, v).square().sum().backward()
    F.scaled_dot_product_attention(*x32, enable_gqa=True).square().sum().backward()
    for a, b in zip((q, k, v), x32, strict=True):
        assert torch.allclose(a.grad, b.grad.double(), atol=1e-5)
