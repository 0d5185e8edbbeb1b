"""``torch.distributed.tensor.parallel.style``: names of ways to spread modules."""

from . import (  # noqa: F401
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)
