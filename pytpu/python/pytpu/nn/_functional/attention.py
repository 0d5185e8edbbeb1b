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
    _check_dims(query, key, value, key_padding_mask, attn_mask)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)

    tgt_len, bsz, embed_dim = query.shape
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    # With the hint no mask is built, unless another mask has to be combined with it.
    use_causal_hint = is_causal and key_padding_mask is None and not need_weights
    key_padding_mask = _attention_mask(key_padding_mask, "key_padding_mask", query.dtype, attn_mask)
    if use_causal_hint:
        attn_mask = None
    else:
        attn_mask = _attention_mask(attn_mask, "attn_mask", query.dtype, check_other=False)
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    heads, head_dim = bsz * num_heads, embed_dim // num_heads

    if use_separate_proj_weight:
        q, k, v = _project(query, key, value, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias)
    else:
        q, k, v = _project_packed(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        attn_mask = _per_head(attn_mask, heads, tgt_len, key.shape[0])

    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must be given together")
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k, v = torch.cat([k, bias_k.repeat(1, bsz, 1)]), torch.cat([v, bias_v.repeat(1, bsz, 1)])
        attn_mask, key_padding_mask = _append_key(attn_mask), _append_key(key_padding_mask)
    q = q.reshape(tgt_len, heads, head_dim).transpose(0, 1)
    k = _split_heads(k, static_k, "static_k", heads, head_dim)
    v = _split_heads(v, static_v, "static_v", heads, head_dim)
    if add_zero_attn:
        zeros = torch.zeros((heads, 1, head_dim), dtype=k.dtype, device=k.device)
        k, v = torch.cat([k, zeros], dim=1), torch.cat([v, zeros], dim=1)
        attn_mask, key_padding_mask = _append_key(attn_mask), _append_key(key_padding_mask)
    if key_padding_mask is not None:
        attn_mask = _add_padding(attn_mask, key_padding_mask, bsz, num_heads, k.size(1))

    dropout_p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        output, weights = _attend_with_weights(q, k, v, attn_mask, dropout_p)
        weights = weights.view(bsz, num_heads, tgt_len, k.size(1))
        if average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            weights = weights.squeeze(0)
    else:
        output = _attend(q, k, v, attn_mask, dropout_p, use_causal_hint, bsz, num_heads)
    output = _ops.linear(output.reshape(tgt_len * bsz, embed_dim), out_proj_weight, out_proj_bias)
    output = output.view(tgt_len, bsz, output.size(1))
    return (output if batched else output.squeeze(1)), weights


# ---- its steps


def _check_dims(query, key, value, key_padding_mask, attn_mask):
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    kind, n = ("batched (3-D)", 3) if query.dim() == 3 else ("unbatched (2-D)", 2)
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


def _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight):
    embed_dim = query.shape[2]
    if embed_dim != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}")
    if embed_dim // num_heads * num_heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _project(query, key, value, w_q, w_k, w_v, b):
    if w_q is None or w_k is None or w_v is None:
        raise AssertionError("use_separate_proj_weight is True but a projection weight is None")
    b_q, b_k, b_v = (None, None, None) if b is None else b.chunk(3)
    return _ops.linear(query, w_q, b_q), _ops.linear(key, w_k, b_k), _ops.linear(value, w_v, b_v)


def _project_packed(q, k, v, w, b):
    if w is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
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


def _per_head(mask, heads, length, s):
    """Return a mask `(1, length, s)` or `(heads, length, s)`."""
    if mask.dim() == 2:
        if tuple(mask.shape) != (length, s):
            raise RuntimeError(f"The shape of the 2D attn_mask is {mask.shape}, but should be {(length, s)}.")
        return mask.unsqueeze(0)
    if tuple(mask.shape) != (heads, length, s):
        raise RuntimeError(f"The shape of the 3D attn_mask is {mask.shape}, but should be {(heads, length, s)}.")
    return mask


def _append_key(mask):
    """Return a mask for one more key, which is not left out."""
    return None if mask is None else pad(mask, (0, 1))


def _split_heads(x, static, name, heads, head_dim):
    """Return keys or values `(s, n, e)` as `(heads, s, head_dim)`, or the static ones."""
    if static is None:
        return x.reshape(x.shape[0], heads, head_dim).transpose(0, 1)
    if static.size(0) != heads or static.size(2) != head_dim:
        raise AssertionError(f"expecting {name} of shape ({heads}, *, {head_dim}), but got {tuple(static.shape)}")
    return static


def _add_padding(mask, padding, n, num_heads, s):
    """Return the sum of a mask and a mask `(n, s)` of keys."""
    if tuple(padding.shape) != (n, s):
        raise AssertionError(f"expecting key_padding_mask shape of {(n, s)}, but got {padding.shape}")
    padding = padding.view(n, 1, 1, s).expand(-1, num_heads, -1, -1).reshape(n * num_heads, 1, s)
    return padding if mask is None else mask + padding


def _attend_with_weights(q, k, v, mask, dropout_p):
    """Return the results of all heads, `(l, heads, head_dim)`, and the weights, `(heads, l, s)`."""
    scores = torch.bmm(q * math.sqrt(1.0 / q.size(-1)), k.transpose(-2, -1))
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(-1)
    if dropout_p > 0.0:
        weights = dropout(weights, p=dropout_p)
    return torch.bmm(weights, v).transpose(0, 1), weights


def _attend(q, k, v, mask, dropout_p, is_causal, n, num_heads):
    """Return the results of all heads, `(l, n, num_heads, head_dim)`."""
    length, s, head_dim = q.size(1), k.size(1), k.size(2)
    q = q.reshape(n, num_heads, length, head_dim)
    k, v = k.reshape(n, num_heads, s, head_dim), v.reshape(n, num_heads, s, head_dim)
    if mask is not None:
        mask = mask.unsqueeze(0) if mask.size(0) == 1 else mask.view(n, num_heads, mask.size(1), s)
    return _ops.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal).permute(2, 0, 1, 3)
