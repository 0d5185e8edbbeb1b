"""``torch.distributed._symmetric_memory``: memory of other GPUs, which is not there."""

from .._absent import absent_function

_PLACE, _WHY = "torch.distributed._symmetric_memory.", "ranks have no memory in common"
empty = absent_function(_PLACE + "empty", _WHY)
enable_symm_mem_for_group = absent_function(_PLACE + "enable_symm_mem_for_group", _WHY)
get_symm_mem_workspace = absent_function(_PLACE + "get_symm_mem_workspace", _WHY)
rendezvous = absent_function(_PLACE + "rendezvous", _WHY)
