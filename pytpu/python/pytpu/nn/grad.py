"""Gradients of convolutions, as in `torch.nn.grad`."""

from __future__ import annotations

from collections.abc import Sequence

import pytpu as torch
from pytpu import Tensor

from . import functional as F


def _gradient(convolve, input, weight, wanted, grad_output, options):
    """Return the gradient of `wanted`, which is `input` or `weight`."""
    with torch.enable_grad():
        input, weight = (t.detach().requires_grad_(t is wanted) for t in (input, weight))
        output = convolve(input, weight, None, *options)
        return torch.autograd.grad(output, input if input.requires_grad else weight, grad_output)[0]


def _input_gradient(convolve, input_size, weight, grad_output, *options):
    # The gradient does not read the values of the input.
    input = grad_output.new_empty(1).expand(input_size)
    return _gradient(convolve, input, weight, input, grad_output, options)


def _weight_gradient(convolve, input, weight_size, grad_output, *options):
    weight = grad_output.new_empty(1).expand(weight_size)
    return _gradient(convolve, input, weight, weight, grad_output, options)


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv1d` for its input.

    Args:
        input_size: Shape `(n, c, l)` of the input.
        weight: Weight of the convolution.
        grad_output: Gradient of the output.
        stride: Distance between neighbouring windows.
        padding: Zeros to add at both ends of each spatial dimension.
        dilation: Distance between neighbouring elements of the kernel.
        groups: Number of groups of channels.

    Returns:
        Tensor of shape `input_size`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.grad.conv1d_input((1, 2, 6), torch.ones(3, 2, 3), torch.ones(1, 3, 4)).shape
        torch.Size([1, 2, 6])
    """
    return _input_gradient(F.conv1d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv1d` for its weight.

    Args:
        input: Input `(n, c, l)`.
        weight_size: Shape of the weight.
        grad_output: Gradient of the output.
        stride: Distance between neighbouring windows.
        padding: Zeros to add at both ends of each spatial dimension.
        dilation: Distance between neighbouring elements of the kernel.
        groups: Number of groups of channels.

    Returns:
        Tensor of shape `weight_size`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.grad.conv1d_weight(torch.ones(1, 2, 6), (3, 2, 3), torch.ones(1, 3, 4)).shape
        torch.Size([3, 2, 3])
    """
    return _weight_gradient(F.conv1d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv2d` for its input.

    Args:
        input_size: Shape `(n, c, h, w)` of the input.
        weight: Weight of the convolution.
        grad_output: Gradient of the output.
        stride: Distance between neighbouring windows.
        padding: Zeros to add at both ends of each spatial dimension.
        dilation: Distance between neighbouring elements of the kernel.
        groups: Number of groups of channels.

    Returns:
        Tensor of shape `input_size`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.grad.conv2d_input((1, 2, 6, 6), torch.ones(3, 2, 3, 3), torch.ones(1, 3, 4, 4)).shape
        torch.Size([1, 2, 6, 6])
    """
    return _input_gradient(F.conv2d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv2d` for its weight.

    Args:
        input: Input `(n, c, h, w)`.
        weight_size: Shape of the weight.
        grad_output: Gradient of the output.
        stride: Distance between neighbouring windows.
        padding: Zeros to add at both ends of each spatial dimension.
        dilation: Distance between neighbouring elements of the kernel.
        groups: Number of groups of channels.

    Returns:
        Tensor of shape `weight_size`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.grad.conv2d_weight(torch.ones(1, 2, 6, 6), (3, 2, 3, 3), torch.ones(1, 3, 4, 4)).shape
        torch.Size([3, 2, 3, 3])
    """
    return _weight_gradient(F.conv2d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv3d` for its input.

    Args:
        input_size: Shape `(n, c, d, h, w)` of the input.
        weight: Weight of the convolution.
        grad_output: Gradient of the output.
        stride: Distance between neighbouring windows.
        padding: Zeros to add at both ends of each spatial dimension.
        dilation: Distance between neighbouring elements of the kernel.
        groups: Number of groups of channels.

    Returns:
        Tensor of shape `input_size`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.grad.conv3d_input((1, 2, 6, 6, 6), torch.ones(3, 2, 3, 3, 3), torch.ones(1, 3, 4, 4, 4)).shape
        torch.Size([1, 2, 6, 6, 6])
    """
    return _input_gradient(F.conv3d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of `conv3d` for its weight.

    Args:
        input: Input `(n, c, d, h, w)`.
        weight_size: Shape of the weight.
        grad_output: Gradient of the output.
        stride: Distance between neighbouring windows.
        padding: Zeros to add at both ends of each spatial dimension.
        dilation: Distance between neighbouring elements of the kernel.
        groups: Number of groups of channels.

    Returns:
        Tensor of shape `weight_size`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.grad.conv3d_weight(torch.ones(1, 2, 6, 6, 6), (3, 2, 3, 3, 3), torch.ones(1, 3, 4, 4, 4)).shape
        torch.Size([3, 2, 3, 3, 3])
    """
    return _weight_gradient(F.conv3d, input, weight_size, grad_output, stride, padding, dilation, groups)
