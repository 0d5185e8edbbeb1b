"""Memory formats of the weights of convolutions, as in `torch.nn.utils`."""

from __future__ import annotations

from typing import TypeVar

import pytpu as torch

from ..modules import conv
from ..modules.module import Module

_M = TypeVar("_M", bound=Module)


def convert_conv2d_weight_memory_format(module: _M, memory_format: torch.memory_format) -> _M:
    """Accept a memory format for the weights of `Conv2d` and `ConvTranspose2d` layers.

    Tensors have one memory order here, so that the weights stay as they are.

    Args:
        module: Module to search.
        memory_format: The memory format.

    Returns:
        `module`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Conv2d(2, 3, 1)
        >>> torch.nn.utils.convert_conv2d_weight_memory_format(layer, torch.channels_last) is layer
        True
    """
    return _convert(module, memory_format, (conv.Conv2d, conv.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: _M, memory_format: torch.memory_format) -> _M:
    """Accept a memory format for the weights of `Conv3d` and `ConvTranspose3d` layers.

    Tensors have one memory order here, so that the weights stay as they are.

    Args:
        module: Module to search.
        memory_format: The memory format.

    Returns:
        `module`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Conv3d(2, 3, 1)
        >>> torch.nn.utils.convert_conv3d_weight_memory_format(layer, torch.channels_last_3d) is layer
        True
    """
    return _convert(module, memory_format, (conv.Conv3d, conv.ConvTranspose3d))


def _convert(module, memory_format, kinds):
    for m in module.modules():
        if isinstance(m, kinds):
            m.weight.data = m.weight.detach().contiguous(memory_format=memory_format)
    return module
