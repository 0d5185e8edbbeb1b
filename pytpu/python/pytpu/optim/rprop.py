"""`Rprop`, under PyTorch's name for the module."""

from .variants import Rprop

__all__ = ["Rprop"]
