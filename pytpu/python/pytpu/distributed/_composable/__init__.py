"""`torch.distributed._composable`: functions that change modules in place."""

from .checkpoint_activation import checkpoint as checkpoint
from .contract import _get_registry as _get_registry, contract as contract
from .replicate import replicate as replicate
