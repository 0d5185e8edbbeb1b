"""Causal masks, as in `torch.nn.attention.bias`."""

from __future__ import annotations

import enum

import pytpu as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self


class CausalVariant(enum.IntEnum):
    """The diagonal of a causal mask: it begins at the upper left, or ends at the lower right."""

    UPPER_LEFT = enum.auto()
    LOWER_RIGHT = enum.auto()


class CausalBias(torch.Tensor):
    """A causal mask for queries and keys of different lengths.

    The tensor has shape `(seq_len_q, seq_len_kv)`: 0 where a query may attend, and negative infinity elsewhere.
    It goes to `scaled_dot_product_attention` as `attn_mask`.

    Args:
        variant: Corner that the diagonal goes through.
        seq_len_q: Number of queries.
        seq_len_kv: Number of keys.

    Raises:
        AssertionError: `variant` is not a `CausalVariant`.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention.bias import CausalBias, CausalVariant
        >>> torch.Tensor(CausalBias(CausalVariant.LOWER_RIGHT, 2, 3)).tolist()
        [[0.0, 0.0, -inf], [0.0, 0.0, 0.0]]
    """

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Self:
        offset = 0 if variant == CausalVariant.UPPER_LEFT else seq_len_kv - seq_len_q
        allowed = torch.ones(seq_len_q, seq_len_kv, dtype=torch.bool).tril(offset)
        mask = torch.zeros(seq_len_q, seq_len_kv).masked_fill_(~allowed, float("-inf"))
        return torch.Tensor._make_subclass(cls, mask, False)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, but got {type(variant)}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self) -> str:
        return f"CausalBias(variant={self.variant.name}, seq_len_q={self.seq_len_q}, seq_len_kv={self.seq_len_kv})"


def causal_upper_left(*size: int) -> CausalBias:
    """Return a causal mask whose diagonal begins at the first query and key.

    Args:
        *size: Numbers of queries and keys.

    Returns:
        A `CausalBias`.

    Raises:
        AssertionError: There are not two sizes.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention.bias import causal_upper_left
        >>> causal_upper_left(2, 3)
        CausalBias(variant=UPPER_LEFT, seq_len_q=2, seq_len_kv=3)
    """
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return a causal mask whose diagonal ends at the last query and key.

    Args:
        *size: Numbers of queries and keys.

    Returns:
        A `CausalBias`.

    Raises:
        AssertionError: There are not two sizes.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention.bias import causal_lower_right
        >>> causal_lower_right(2, 3)
        CausalBias(variant=LOWER_RIGHT, seq_len_q=2, seq_len_kv=3)
    """
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
