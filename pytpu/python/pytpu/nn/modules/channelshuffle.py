"""`ChannelShuffle`, under PyTorch's name for the module."""

from .shape import ChannelShuffle

__all__ = ["ChannelShuffle"]
