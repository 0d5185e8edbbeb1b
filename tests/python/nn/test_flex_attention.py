"""`flex_attention` with `score_mod` and `mask_mod`, against attention with equivalent masks and biases."""

import pytest

import pytpu as torch
import pytpu.nn.functional as F
from pytpu.nn.attention.flex_attention import (
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


@pytest.fixture
def inputs(device):
    generator = torch.Generator().manual_seed(0)
    made = (torch.randn(2, 4, 20, 8, generator=generator) for _ in range(3))
    return [x.to(device).requires_grad_() for x in made]


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_flex_attention_without_functions_is_attention(inputs):
    same(flex_attention(*inputs), F.scaled_dot_product_attention(*inputs))
    q, k, v = inputs
    found = flex_attention(q, k[:, :2], v[:, :2], scale=0.1, enable_gqa=True)
    same(found, F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], scale=0.1, enable_gqa=True))


def test_score_mod_changes_scores_by_position(inputs):
    device = inputs[0].device
    bias = torch.randn(4, 20, 20, generator=torch.Generator().manual_seed(1)).to(device).requires_grad_()
    found = flex_attention(*inputs, score_mod=lambda score, b, h, i, j: score + bias[h, i, j])
    expected = F.scaled_dot_product_attention(*inputs, attn_mask=bias)
    same(found, expected)
    tensors = [*inputs, bias]
    for x, y in zip(torch.autograd.grad(found.sum(), tensors), torch.autograd.grad(expected.sum(), tensors)):
        same(x, y)


def test_masks(inputs):
    device = inputs[0].device
    document = torch.arange(20, device=device) // 7
    mask = and_masks(causal, lambda b, h, i, j: document[i] == document[j])
    blocks = create_block_mask(mask, None, None, 20, 20, device=device, BLOCK_SIZE=8)
    dense = (document[:, None] == document) & torch.ones(20, 20, device=device).tril().bool()
    same(flex_attention(*inputs, block_mask=blocks), F.scaled_dot_product_attention(*inputs, attn_mask=dense))
    assert create_mask(mask, 1, 1, 20, 20, device=device)[0, 0].tolist() == dense.tolist()
    either = create_mask(or_masks(causal, noop_mask), None, None, 3, 3, device=device)
    assert either.all().item() and either.shape == (1, 1, 3, 3)


def test_fully_masked_queries_get_zeros(inputs):
    blocks = create_block_mask(lambda b, h, i, j: i > j, None, None, 20, 20, device=inputs[0].device)
    out, lse = flex_attention(*inputs, block_mask=blocks, return_lse=True)
    assert out[:, :, 0].abs().max().item() == 0 and lse[0, 0, 0].item() == float("-inf")
    grads = torch.autograd.grad(out.sum(), inputs)
    assert all(g.isfinite().all().item() for g in grads)


def test_blocks():
    blocks = create_block_mask(causal, None, None, 300, 300, device="cpu")
    assert blocks.shape == (1, 1, 300, 300) and blocks.BLOCK_SIZE == (128, 128)
    assert blocks.kv_num_blocks.tolist() == [[[1, 1, 3]]] and blocks.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert blocks.kv_indices.tolist() == [[[[0, 1, 2], [1, 0, 2], [0, 1, 2]]]]
    assert blocks.q_num_blocks.tolist() == [[[2, 2, 1]]]
    assert blocks.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert blocks.sparsity() == pytest.approx(100 / 3)
    assert "██" in str(blocks) and "kv_num_blocks=torch.Size([1, 1, 3])" in repr(blocks)


def test_mistakes(inputs):
    q, k, v = inputs
    with pytest.raises(ValueError, match="Try setting enable_gqa=True for GQA"):
        flex_attention(q, k[:, :2], v[:, :2])
    with pytest.raises(ValueError, match="same embedding dimension but got E=8 and E=4"):
        flex_attention(q, k[..., :4], v)
    with pytest.raises(NotImplementedError, match="must be 4D"):
        flex_attention(q[0], k, v)
    with pytest.raises(RuntimeError, match="created for a smaller length"):
        flex_attention(q, k, v, block_mask=create_block_mask(causal, None, None, 8, 8, device=q.device))
    table = torch.zeros(2, 20, dtype=torch.int64, device=q.device)
    with pytest.raises(NotImplementedError, match=r"instead of table\[b\]\[q_idx\] write table\[b, q_idx\]"):
        flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + table[b][i % 2])
