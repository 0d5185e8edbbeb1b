"""``torch.nn.attention.bias``: masks of attention by name."""

import enum

import pytpu as torch


class CausalVariant(enum.IntEnum):
    """Which corner of the matrix of scores the diagonal of a causal mask begins in."""

    UPPER_LEFT = enum.auto()
    LOWER_RIGHT = enum.auto()


class CausalBias(torch.Tensor):
    """A causal mask for queries and keys of different lengths, as ``attn_mask`` of ``scaled_dot_product_attention``.

    It is a tensor of the mask: 0 where a query may look, minus infinity elsewhere, shape ``(seq_len_q, seq_len_kv)``.
    """

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        offset = 0 if variant == CausalVariant.UPPER_LEFT else seq_len_kv - seq_len_q
        allowed = torch.ones(seq_len_q, seq_len_kv, dtype=torch.bool).tril(offset)
        mask = torch.zeros(seq_len_q, seq_len_kv).masked_fill_(~allowed, float("-inf"))
        return torch.Tensor._make_subclass(cls, mask, False)

    def __init__(self, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, but got {type(variant)}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self):
        return f"CausalBias(variant={self.variant.name}, seq_len_q={self.seq_len_q}, seq_len_kv={self.seq_len_kv})"


def causal_upper_left(*size):
    """Return a causal mask whose diagonal begins at the first query and key."""
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size):
    """Return a causal mask whose diagonal ends at the last query and key."""
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
