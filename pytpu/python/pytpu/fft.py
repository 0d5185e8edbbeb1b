"""`torch.fft`: the ops of the table whose names begin with `fft_`."""

from __future__ import annotations

from typing import Any

from . import _C

TYPE_CHECKING = False
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


_PREFIX = "fft_"
__all__ = sorted(k[len(_PREFIX) :] for k in vars(_C._ops) if k.startswith(_PREFIX))
globals().update({k[len(_PREFIX) :]: v for k, v in vars(_C._ops).items() if k.startswith(_PREFIX)})
