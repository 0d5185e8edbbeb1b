"""``torch.distributed.fsdp.wrap``: names of policies of wrapping."""

from ..._absent import absent_class, absent_function
from .. import _WHY

_HERE = "torch.distributed.fsdp.wrap"
for _name in ("CustomPolicy", "ModuleWrapPolicy"):
    globals()[_name] = absent_class(f"{_HERE}.{_name}", _WHY)
for _name in (
    "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy", "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy", "wrap",
):  # fmt: skip
    globals()[_name] = absent_function(f"{_HERE}.{_name}", _WHY)
del _name
