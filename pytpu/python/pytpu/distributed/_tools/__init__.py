"""`torch.distributed._tools`: contexts that watch modules and memory."""

from .mem_tracker import MemTracker as MemTracker
from .mod_tracker import ModTracker as ModTracker
