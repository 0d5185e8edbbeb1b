"""``torch.tpu.ops``: functions that torch_tpu has beside PyTorch's."""

import pytpu as torch


def splash_sdpa(
    q, k, v, *, scale=None, is_causal=True, local_window_size=None, enable_gqa=False, block_q=512, block_kv=512, block_dkv=512,
    block_kv_compute=512, block_q_dkv=512, block_kv_dkv=512, block_kv_dkv_compute=512, block_q_dq=None, block_kv_dq=None,
    use_fused_bwd_kernel=True, use_vmap_bwd=True, q_layout="HEAD_DIM_MINOR", k_layout="HEAD_DIM_MINOR", v_layout="HEAD_DIM_MINOR",
):  # fmt: skip
    """Compute attention. This is ``torch.nn.functional.scaled_dot_product_attention``, with torch_tpu's arguments and defaults.

    Args:
        q: queries, ``(n, h, l, d)``.
        k: keys, ``(n, h or a divisor of it, s, d)``.
        v: values, of the sizes of `k`.
        scale: factor of the products; ``1 / sqrt(d)`` if it is ``None``.
        is_causal: whether query ``i`` sees no key behind place ``i``.
        local_window_size: a query sees so many keys to its left, and to its right if not `is_causal`; ``None`` for all.
        enable_gqa: whether several heads of `q` share one of `k` and `v`.
        block_q, ..., v_layout: sizes and layouts of torch_tpu's kernel. They are accepted without an effect: the compiler chooses.

    Returns:
        Tensor of the sizes of `q`.

    Raises:
        ValueError: `enable_gqa` does not fit the numbers of heads.
    """
    heads, of_keys = q.shape[1], k.shape[1]
    if enable_gqa != (heads != of_keys):
        raise ValueError(f"enable_gqa ({enable_gqa}) does not match inputs: n_heads={heads}, n_kv_heads={of_keys}")
    mask = None
    if local_window_size is not None:
        distance = torch.arange(q.shape[2], device=q.device)[:, None] - torch.arange(k.shape[2], device=q.device)
        mask = distance <= local_window_size
        mask &= distance >= (0 if is_causal else -local_window_size)
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=is_causal and mask is None, scale=scale, enable_gqa=enable_gqa
    )
