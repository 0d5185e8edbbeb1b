"""`AdamW`, under PyTorch's name for the module."""

from .adam import AdamW

__all__ = ["AdamW"]
