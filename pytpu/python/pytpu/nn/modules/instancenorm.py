"""Instance norms, under PyTorch's name for the module."""

from .batchnorm import _InstanceNorm as _InstanceNorm
from .batchnorm import _LazyInstanceNorm as _LazyInstanceNorm
from .batchnorm import (
    InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d,
)

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d"]
