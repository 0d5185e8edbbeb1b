"""``torch.mps``: there are none of Apple's devices, and scripts that ask are told so. The accelerator is
``torch.tpu``.
"""

from ._absent import device_count, empty_cache, is_available, manual_seed

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed"]
