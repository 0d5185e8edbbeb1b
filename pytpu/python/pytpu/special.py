"""`torch.special`: the functions of the table whose names begin with `special_`."""

from __future__ import annotations

from typing import Any

from . import _C

TYPE_CHECKING = False
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


_PREFIX = "special_"
globals().update({k[len(_PREFIX) :]: v for k, v in vars(_C._ops).items() if k.startswith(_PREFIX)})
