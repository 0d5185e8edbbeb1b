"""``torch.distributed._tools``: contexts that watch modules and memory."""

from ..._absent import absent_class
from .mem_tracker import MemTracker as MemTracker
from .mod_tracker import ModTracker as ModTracker

_PLANS = "use torch.tpu.plan or python -m pytpu.advise, which estimate time and memory of a step"

FSDPMemTracker = absent_class("torch.distributed._tools.FSDPMemTracker", "use MemTracker, which counts parts too")
MemoryTracker = absent_class("torch.distributed._tools.MemoryTracker", "use MemTracker")
RuntimeEstimator = absent_class("torch.distributed._tools.RuntimeEstimator", _PLANS)
SACEstimator = absent_class("torch.distributed._tools.SACEstimator", _PLANS)
SACStats = absent_class("torch.distributed._tools.SACStats", _PLANS)
