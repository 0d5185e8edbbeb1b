"""``torch.distributed.tensor.experimental``: names of functions for tensors that are spread over processes."""

import contextlib

from ...._absent import absent_function
from ... import _WHY

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]

_HERE = "torch.distributed.tensor.experimental"
context_parallel = absent_function(f"{_HERE}.context_parallel", _WHY)
local_map = absent_function(f"{_HERE}.local_map", _WHY)
register_sharding = absent_function(f"{_HERE}.register_sharding", _WHY)


@contextlib.contextmanager
def implicit_replication():
    """Do nothing: no tensors are spread over processes, so plain tensors need no permission to meet them."""
    yield
