"""`torch.cuda.amp` without CUDA: scripts that ask learn that it is not available, and go on in full precision."""

from __future__ import annotations

import warnings as _warnings

import pytpu.amp as _amp
from pytpu import float16 as _float16

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytpu import dtype as _dtype

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _warn(name):
    _warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cuda', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(_amp.autocast):
    """`torch.autocast("cuda", ...)`."""

    def __init__(self, enabled: bool = True, dtype: _dtype = _float16, cache_enabled: bool = True) -> None:
        _warn("autocast")
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """`torch.amp.GradScaler("cuda", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: _dtype | None = None) -> Callable[..., Any]:
    """`torch.amp.custom_fwd` for CUDA."""
    _warnings.warn(
        (
            "`torch.cuda.amp.custom_fwd(args...)` is deprecated. Please use `torch.amp.custom_fwd(args..., "
            "device_type='cuda')` instead."
        ),
        FutureWarning,
        stacklevel=2,
    )
    return _amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.amp.custom_bwd` for CUDA."""
    _warnings.warn(
        (
            "`torch.cuda.amp.custom_bwd(args...)` is deprecated. Please use `torch.amp.custom_bwd(args..., "
            "device_type='cuda')` instead."
        ),
        FutureWarning,
        stacklevel=2,
    )
    return _amp.custom_bwd(bwd, device_type="cuda")
