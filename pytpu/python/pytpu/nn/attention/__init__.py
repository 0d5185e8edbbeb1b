"""Choose the implementation of attention, as in `torch.nn.attention`.

Each device has one implementation here, so that a choice changes nothing.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

__all__ = [
    "SDPBackend",
    "WARN_FOR_UNFUSED_KERNELS",
    "current_flash_attention_impl",
    "sdpa_kernel",
]


def current_flash_attention_impl() -> str | None:
    """Return `None`: no other implementation of flash attention is in use."""
    return None


# Whether a fallback from a fused implementation warns. There are no fallbacks here.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """An implementation of attention, by the names of PyTorch.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention import SDPBackend
        >>> int(SDPBackend.FLASH_ATTENTION)
        1
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_allowed: list[SDPBackend] = [b for b in SDPBackend if b is not SDPBackend.ERROR]


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """Return the implementations that are allowed now."""
    return list(_allowed)


@contextlib.contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """Allow only some implementations of attention inside the block.

    Each device has one implementation here. The choice is kept, and changes nothing.

    Args:
        backends: One implementation, or a list of them.
        set_priority: Not used.

    Raises:
        AssertionError: `backends` holds something else.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention import SDPBackend, sdpa_kernel
        >>> q = torch.randn(1, 2, 3, 4)
        >>> with sdpa_kernel(SDPBackend.MATH):
        ...     out = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        >>> out.shape
        torch.Size([1, 2, 3, 4])
    """
    global _allowed
    if isinstance(backends, SDPBackend):
        backends = [backends]
    if not isinstance(backends, list) or not all(isinstance(b, SDPBackend) for b in backends):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    before, _allowed = _allowed, list(dict.fromkeys(backends))
    try:
        yield {}
    finally:
        _allowed = before
