"""`PixelShuffle` and `PixelUnshuffle`, under PyTorch's name for the module."""

from .shape import PixelShuffle, PixelUnshuffle

__all__ = ["PixelShuffle", "PixelUnshuffle"]
