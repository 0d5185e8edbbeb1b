"""Names of hooks around collectives."""

from ...._absent import absent_function
from ... import _WHY

for _name in (
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
):
    globals()[_name] = absent_function(f"torch.distributed.algorithms.ddp_comm_hooks.default_hooks.{_name}", _WHY)
del _name
