"""``torch.xpu`` without Intel's devices: scripts that ask learn that it has none. The accelerator is ``torch.tpu``."""

from ._absent import device_count, empty_cache, is_available, manual_seed

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed"]
