"""Multi-head attention."""

from __future__ import annotations

import math
import warnings

import pytpu as torch
from pytpu import _C, Tensor

from .dropout import dropout
from .vision import pad

_ops = _C._ops


def _attention_mask(mask, name, dtype, other=None, check_other=True, other_name="attn_mask"):
    """Return a mask as floats to add to the scores. Boolean masks become 0 and negative infinity."""
    if mask is None:
        return None
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if check_other and other is not None and mask.dtype != other.dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))
    return mask


def _project_packed(q, k, v, w, b):
    e = q.size(-1)
    if k is v:
        if q is k:
            # Compute all three by one product, and make each part contiguous.
            packed = _ops.linear(q, w, b)
            packed = packed.unflatten(-1, (3, e)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return packed[0], packed[1], packed[2]
        w_q, w_kv = w.split([e, e * 2])
        b_q, b_kv = (None, None) if b is None else b.split([e, e * 2])
        query = _ops.linear(q, w_q, b_q)
        packed = _ops.linear(k, w_kv, b_kv)
        packed = packed.unflatten(-1, (2, e)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return query, packed[0], packed[1]
    w_q, w_k, w_v = w.chunk(3)
    b_q, b_k, b_v = (None, None, None) if b is None else b.chunk(3)
    return _ops.linear(q, w_q, b_q), _ops.linear(k, w_k, b_k), _ops.linear(v, w_v, b_v)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Let queries attend to keys and values in several heads, with given projections.

    `MultiheadAttention` calls this function with its parameters. Sizes are the length `l` of the queries, the
    length `s` of the keys, the batch `n` and the features `e`.

    Args:
        query: Queries `(l, n, e)` or `(l, e)`.
        key: Keys `(s, n, kdim)` or `(s, kdim)`.
        value: Values `(s, n, vdim)` or `(s, vdim)`.
        embed_dim_to_check: Size that `e` must have.
        num_heads: Number of heads. It divides `e`.
        in_proj_weight: Tensor `(3 * e, e)` that projects queries, keys and values.
        in_proj_bias: Tensor `(3 * e,)`. `None` means 0.
        bias_k: Key `(1, 1, e)` to append to the projected keys. `None` means none.
        bias_v: Value `(1, 1, e)` to append to the projected values. `None` means none.
        add_zero_attn: Whether to append a key and a value of zeros.
        dropout_p: Probability of dropping an attention weight in training.
        out_proj_weight: Tensor `(e, e)` that projects the result.
        out_proj_bias: Tensor `(e,)`. `None` means 0.
        training: Whether to drop attention weights.
        key_padding_mask: Mask `(n, s)` or `(s,)` of keys to leave out. `True` leaves a key out; floats are
            added to the scores.
        need_weights: Whether to return the weights. `False` allows a faster implementation.
        attn_mask: Mask `(l, s)` or `(n * num_heads, l, s)` of pairs to leave out. `True` leaves a pair out;
            floats are added to the scores.
        use_separate_proj_weight: Whether to take the next three weights instead of `in_proj_weight`.
        q_proj_weight: Tensor `(e, e)` that projects queries.
        k_proj_weight: Tensor `(e, kdim)` that projects keys.
        v_proj_weight: Tensor `(e, vdim)` that projects values.
        static_k: Keys `(n * num_heads, s, e / num_heads)` to use in place of the projected ones.
        static_v: Values `(n * num_heads, s, e / num_heads)` to use in place of the projected ones.
        average_attn_weights: Whether to average the weights over the heads.
        is_causal: Hint that `attn_mask` is the causal mask. The mask must still be given.

    Returns:
        The output, in the shape of `query`, and the weights, or `None` where `need_weights` is false. Weights
        are `(n, l, s)`, or `(n, num_heads, l, s)` where they are not averaged, without `n` where `query` has
        none.

    Raises:
        AssertionError: A shape or the dtype of a mask does not fit.
        RuntimeError: `attn_mask` has another shape, or is missing although `is_causal` is set.

    Example:
        >>> import pytpu as torch
        >>> x, e = torch.randn(5, 2, 8), 8
        >>> out, weights = torch.nn.functional.multi_head_attention_forward(
        ...     x, x, x, e, 2, torch.randn(3 * e, e), None, None, None, False, 0.0, torch.randn(e, e), None
        ... )
        >>> out.shape, weights.shape
        (torch.Size([5, 2, 8]), torch.Size([2, 5, 5]))
    """
    batched = query.dim() == 3
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    kind, n = ("batched (3-D)", 3) if batched else ("unbatched (2-D)", 2)
    if key.dim() != n or value.dim() != n:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {n}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != n - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {n - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
            "instead"
        )
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)

    tgt_len, bsz, embed_dim = query.shape
    src_len = key.shape[0]
    dtype = query.dtype
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    # With the hint no mask is built, unless another mask has to be combined with it.
    use_causal_hint = is_causal and key_padding_mask is None and not need_weights
    key_padding_mask = _attention_mask(key_padding_mask, "key_padding_mask", dtype, attn_mask)
    if use_causal_hint:
        attn_mask = None
    else:
        attn_mask = _attention_mask(attn_mask, "attn_mask", dtype, check_other=False)
        if key_padding_mask is not None:
            is_causal = False
    if embed_dim != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}")
    head_dim = embed_dim // num_heads
    if head_dim * num_heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")

    if use_separate_proj_weight:
        if q_proj_weight is None or k_proj_weight is None or v_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is True but a projection weight is None")
        b_q, b_k, b_v = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        q = _ops.linear(query, q_proj_weight, b_q)
        k = _ops.linear(key, k_proj_weight, b_k)
        v = _ops.linear(value, v_proj_weight, b_v)
    else:
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _project_packed(query, key, value, in_proj_weight, in_proj_bias)

    if attn_mask is not None:
        if attn_mask.dim() == 2:
            if tuple(attn_mask.shape) != (tgt_len, src_len):
                raise RuntimeError(
                    f"The shape of the 2D attn_mask is {attn_mask.shape}, but should be {(tgt_len, src_len)}."
                )
            attn_mask = attn_mask.unsqueeze(0)
        elif tuple(attn_mask.shape) != (bsz * num_heads, tgt_len, src_len):
            raise RuntimeError(
                f"The shape of the 3D attn_mask is {attn_mask.shape}, but should be "
                f"{(bsz * num_heads, tgt_len, src_len)}."
            )

    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must be given together")
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k = torch.cat([k, bias_k.repeat(1, bsz, 1)])
        v = torch.cat([v, bias_v.repeat(1, bsz, 1)])
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
        key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))

    heads = bsz * num_heads
    q = q.reshape(tgt_len, heads, head_dim).transpose(0, 1)
    k = k.reshape(k.shape[0], heads, head_dim).transpose(0, 1) if static_k is None else static_k
    v = v.reshape(v.shape[0], heads, head_dim).transpose(0, 1) if static_v is None else static_v
    for name, static in (("static_k", static_k), ("static_v", static_v)):
        if static is not None and (static.size(0) != heads or static.size(2) != head_dim):
            raise AssertionError(f"expecting {name} of shape ({heads}, *, {head_dim}), but got {tuple(static.shape)}")
    if add_zero_attn:
        zeros = torch.zeros((heads, 1, head_dim), dtype=k.dtype, device=k.device)
        k, v = torch.cat([k, zeros], dim=1), torch.cat([v, zeros], dim=1)
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
        key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))
    src_len = k.size(1)

    if key_padding_mask is not None:
        if tuple(key_padding_mask.shape) != (bsz, src_len):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(bsz, src_len)}, but got {key_padding_mask.shape}"
            )
        key_padding_mask = (
            key_padding_mask.view(bsz, 1, 1, src_len).expand(-1, num_heads, -1, -1).reshape(heads, 1, src_len)
        )
        attn_mask = key_padding_mask if attn_mask is None else attn_mask + key_padding_mask
    if not training:
        dropout_p = 0.0

    if need_weights:
        q = q * math.sqrt(1.0 / head_dim)
        scores = torch.bmm(q, k.transpose(-2, -1))
        if attn_mask is not None:
            scores = scores + attn_mask
        weights = scores.softmax(-1)
        if dropout_p > 0.0:
            weights = dropout(weights, p=dropout_p)
        output = torch.bmm(weights, v).transpose(0, 1).reshape(tgt_len * bsz, embed_dim)
        output = _ops.linear(output, out_proj_weight, out_proj_bias)
        output = output.view(tgt_len, bsz, output.size(1))
        weights = weights.view(bsz, num_heads, tgt_len, src_len)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            output, weights = output.squeeze(1), weights.squeeze(0)
        return output, weights

    if attn_mask is not None:
        if attn_mask.size(0) == 1:
            attn_mask = attn_mask.unsqueeze(0)
        else:
            attn_mask = attn_mask.view(bsz, num_heads, attn_mask.size(1), src_len)
    q = q.reshape(bsz, num_heads, tgt_len, head_dim)
    k = k.reshape(bsz, num_heads, src_len, head_dim)
    v = v.reshape(bsz, num_heads, src_len, head_dim)
    output = _ops.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, use_causal_hint)
    output = output.permute(2, 0, 1, 3).reshape(bsz * tgt_len, embed_dim)
    output = _ops.linear(output, out_proj_weight, out_proj_bias)
    output = output.view(tgt_len, bsz, output.size(1))
    return (output if batched else output.squeeze(1)), None
