"""`RAdam`, under PyTorch's name for the module."""

from .variants import RAdam

__all__ = ["RAdam"]
