"""`ASGD`, under PyTorch's name for the module."""

from .variants import ASGD

__all__ = ["ASGD"]
