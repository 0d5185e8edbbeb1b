"""``torch.distributed.checkpoint``: names of files that several processes write."""

from ..._absent import absent_class, absent_function
from .. import _WHY

_HERE = "torch.distributed.checkpoint"
for _name in (
    "DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "LoadPlan", "LoadPlanner",
    "Metadata", "ReadItem", "SavePlan", "SavePlanner", "StorageReader", "StorageWriter", "WriteItem",
):  # fmt: skip
    globals()[_name] = absent_class(f"{_HERE}.{_name}", _WHY)
for _name in ("async_save", "load", "load_state_dict", "save", "save_state_dict"):
    globals()[_name] = absent_function(f"{_HERE}.{_name}", _WHY)
del _name
