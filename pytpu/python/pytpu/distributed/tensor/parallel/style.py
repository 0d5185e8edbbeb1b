"""``torch.distributed.tensor.parallel.style``: names of ways to spread modules."""

from . import ColwiseParallel, ParallelStyle, PrepareModuleInput, PrepareModuleInputOutput, PrepareModuleOutput  # noqa: F401
from . import RowwiseParallel, SequenceParallel  # noqa: F401
