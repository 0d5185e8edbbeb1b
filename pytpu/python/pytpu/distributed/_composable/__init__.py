"""``torch.distributed._composable``: functions that change modules in place."""

from .checkpoint_activation import checkpoint as checkpoint
from .replicate import replicate as replicate
