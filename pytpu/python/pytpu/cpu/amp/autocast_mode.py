"""Autocast, under PyTorch's name for the module."""

from . import autocast

__all__ = ["autocast"]
