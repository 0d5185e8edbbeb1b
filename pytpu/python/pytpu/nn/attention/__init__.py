"""Which implementation of attention may be used.

There is one here for each device, so a choice restricts nothing; asking for none at all is an error, as in PyTorch.
"""

import contextlib
import enum

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

# Whether falling back from a fused implementation warns; nothing falls back here.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Implementations of attention, by PyTorch's names."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_allowed = [b for b in SDPBackend if b is not SDPBackend.ERROR]


def _cur_sdpa_kernel_backends(with_priority=False):
    """What may be used now."""
    return list(_allowed)


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Allows only these implementations within."""
    global _allowed
    if isinstance(backends, SDPBackend):
        backends = [backends]
    if not isinstance(backends, (list, tuple)) or not all(isinstance(b, SDPBackend) for b in backends):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    before, _allowed = _allowed, list(dict.fromkeys(backends))
    try:
        yield {}
    finally:
        _allowed = before
