"""`torch.tpu.ops`: functions that torch_tpu has in addition to PyTorch's."""

from __future__ import annotations

import pytpu as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor


def splash_sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    is_causal: bool = True,
    local_window_size: int | None = None,
    enable_gqa: bool = False,
    block_q: int = 512,
    block_kv: int = 512,
    block_dkv: int = 512,
    block_kv_compute: int = 512,
    block_q_dkv: int = 512,
    block_kv_dkv: int = 512,
    block_kv_dkv_compute: int = 512,
    block_q_dq: int | None = None,
    block_kv_dq: int | None = None,
    use_fused_bwd_kernel: bool = True,
    use_vmap_bwd: bool = True,
    q_layout: str = "HEAD_DIM_MINOR",
    k_layout: str = "HEAD_DIM_MINOR",
    v_layout: str = "HEAD_DIM_MINOR",
) -> Tensor:
    """Compute attention: `scaled_dot_product_attention` with torch_tpu's arguments and defaults.

    Args:
        q: Queries of shape `(n, h, l, d)`.
        k: Keys of shape `(n, g, s, d)`, where `g` is `h`, or a divisor of `h` with `enable_gqa`.
        v: Values of the shape of `k`.
        scale: Factor of the products. `None` is `1 / sqrt(d)`.
        is_causal: If `True`, query `i` sees keys `0` to `i` only.
        local_window_size: Number of keys on the left that a query sees, and on the right too if not `is_causal`. `None`
            is all.
        enable_gqa: If `True`, several heads of `q` share one head of `k` and `v`.
        block_q: Block size of torch_tpu's kernel. It has no effect: the compiler chooses.
        block_kv: As `block_q`.
        block_dkv: As `block_q`.
        block_kv_compute: As `block_q`.
        block_q_dkv: As `block_q`.
        block_kv_dkv: As `block_q`.
        block_kv_dkv_compute: As `block_q`.
        block_q_dq: As `block_q`.
        block_kv_dq: As `block_q`.
        use_fused_bwd_kernel: As `block_q`.
        use_vmap_bwd: As `block_q`.
        q_layout: As `block_q`.
        k_layout: As `block_q`.
        v_layout: As `block_q`.

    Returns:
        A tensor of the shape of `q`.

    Raises:
        ValueError: If `enable_gqa` does not fit the numbers of heads.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.tpu.ops import splash_sdpa
        >>> q = torch.ones(1, 2, 4, 8, device="tpu")
        >>> splash_sdpa(q, q, q).shape
        torch.Size([1, 2, 4, 8])
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
