"""``torch.distributed.optim``: names of optimisers over several processes."""

from ..._absent import absent_class
from .. import _WHY

for _name in ("DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"):
    globals()[_name] = absent_class(f"torch.distributed.optim.{_name}", _WHY)
del _name
