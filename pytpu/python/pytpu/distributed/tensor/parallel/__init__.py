"""``torch.distributed.tensor.parallel``: modules with sharded parameters."""

from ...._absent import absent_function
from .api import parallelize_module
from .style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]

loss_parallel = absent_function(
    "torch.distributed.tensor.parallel.loss_parallel", "losses of sharded classes gather them"
)
