"""`torch.cpu.amp`: `torch.amp` for the host."""

import warnings as _warnings

import pytpu.amp as _amp
from pytpu import bfloat16 as _bfloat16

__all__ = ["GradScaler", "autocast"]


def _warn(name):
    _warnings.warn(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cpu', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(_amp.autocast):
    """`torch.autocast("cpu", ...)`."""

    def __init__(self, enabled=True, dtype=_bfloat16, cache_enabled=True):
        _warn("autocast")
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """`torch.amp.GradScaler("cpu", ...)`."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        _warn("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
