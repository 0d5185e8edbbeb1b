"""`NAdam`, under PyTorch's name for the module."""

from .variants import NAdam

__all__ = ["NAdam"]
