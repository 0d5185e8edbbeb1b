"""Reductions of gradients for `FullyShardedDataParallel.register_comm_hook`."""

from . import default_hooks as default_hooks
from .default_hooks import bf16_compress_hook, fp16_compress_hook

__all__ = ["LOW_PRECISION_HOOKS"]

#: The functions that send gradients in 16 bits.
LOW_PRECISION_HOOKS = [fp16_compress_hook, bf16_compress_hook]
