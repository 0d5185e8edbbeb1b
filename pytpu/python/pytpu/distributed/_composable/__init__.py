"""``torch.distributed._composable``: names of functions that change modules in place for several processes."""

from ..._absent import absent_function
from .. import _WHY

checkpoint = absent_function("torch.distributed._composable.checkpoint", _WHY)
replicate = absent_function("torch.distributed._composable.replicate", _WHY)
