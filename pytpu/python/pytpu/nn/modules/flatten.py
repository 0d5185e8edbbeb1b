"""`Flatten` and `Unflatten`, under PyTorch's name for the module."""

from .shape import Flatten, Unflatten

__all__ = ["Flatten", "Unflatten"]
