"""`Adamax`, under PyTorch's name for the module."""

from .variants import Adamax

__all__ = ["Adamax"]
