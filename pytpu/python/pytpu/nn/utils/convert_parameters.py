"""Conversion of parameters to one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

import pytpu as torch
from pytpu import Tensor


def _same_device(param, expected):
    if expected is not None and param.device != expected:
        raise TypeError(
            f"Found two parameters on different devices, {param.device} and {expected}. This is currently not "
            "supported."
        )
    return param.device


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return parameters as one vector.

    Args:
        parameters: Tensors on one device.

    Returns:
        Tensor of one dimension.

    Raises:
        TypeError: The tensors are on different devices.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Linear(2, 3)
        >>> torch.nn.utils.parameters_to_vector(layer.parameters()).shape
        torch.Size([9])
    """
    device, parts = None, []
    for param in parameters:
        device = _same_device(param, device)
        parts.append(param.reshape(-1))
    return torch.cat(parts)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set parameters to the values of one vector.

    The data of each parameter becomes a view of a part of the vector.

    Args:
        vec: Tensor of one dimension, as `parameters_to_vector` returns it.
        parameters: Tensors on one device.

    Raises:
        TypeError: `vec` is not a tensor, or the tensors are on different devices.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Linear(2, 1)
        >>> torch.nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), layer.parameters())
        >>> layer.weight.tolist(), layer.bias.tolist()
        ([[1.0, 2.0]], [3.0])
    """
    if not isinstance(vec, torch.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {torch.typename(vec)}")
    device, start = None, 0
    for param in parameters:
        device = _same_device(param, device)
        count = param.numel()
        param.data = vec[start : start + count].view_as(param).data
        start += count
