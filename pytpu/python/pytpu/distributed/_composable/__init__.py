"""``torch.distributed._composable``: functions that change modules in place for several processes."""

from ..._absent import absent_function
from .. import _WHY
from .replicate import replicate as replicate

checkpoint = absent_function("torch.distributed._composable.checkpoint", _WHY)
