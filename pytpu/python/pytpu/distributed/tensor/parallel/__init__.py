"""``torch.distributed.tensor.parallel``: names of functions that spread modules over processes."""

from ...._absent import absent_class, absent_function
from ... import _WHY

_HERE = "torch.distributed.tensor.parallel"
ParallelStyle = absent_class(f"{_HERE}.style.ParallelStyle", _WHY)
for _name in (
    "ColwiseParallel",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
):
    globals()[_name] = absent_class(f"{_HERE}.style.{_name}", _WHY, ParallelStyle)
del _name
parallelize_module = absent_function(f"{_HERE}.parallelize_module", _WHY)
loss_parallel = absent_function(f"{_HERE}.loss_parallel", _WHY)
