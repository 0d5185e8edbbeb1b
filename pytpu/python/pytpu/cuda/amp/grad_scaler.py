"""Scaling of losses, under PyTorch's name for the module."""

from . import GradScaler

__all__ = ["GradScaler"]
