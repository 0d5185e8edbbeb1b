"""`Fold` and `Unfold`, under PyTorch's name for the module."""

from .shape import Fold, Unfold

__all__ = ["Fold", "Unfold"]
