"""`Adadelta`, under PyTorch's name for the module."""

from .variants import Adadelta

__all__ = ["Adadelta"]
