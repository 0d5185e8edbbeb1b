"""Autocast, under PyTorch's name for the module."""

from . import autocast, custom_bwd, custom_fwd

__all__ = ["autocast", "custom_bwd", "custom_fwd"]
