"""The inverse of max pooling."""

from __future__ import annotations

from collections.abc import Sequence

from pytpu import _C, Tensor

from .pooling import _tuple

_ops = _C._ops


def _unpool_output_size(input, kernel_size, stride, padding, output_size):
    n = len(kernel_size)
    spatial = input.size()[-n:]
    default = [(spatial[d] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(n)]
    if output_size is None:
        return default
    if len(output_size) == n + 2:
        output_size = output_size[2:]
    if len(output_size) != n:
        raise ValueError(
            "output_size should be a sequence containing "
            f"{n} or {n + 2} elements, but it has a length of '{len(output_size)}'"
        )
    for d in range(n):
        if not default[d] - stride[d] < output_size[d] < default[d] + stride[d]:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between '
                f"{default[d] - stride[d]} and {default[d] + stride[d]})"
            )
    return list(output_size)


def _max_unpool(n, input, indices, kernel_size, stride, padding, output_size):
    kernel = _tuple(kernel_size, n)
    steps = kernel if stride is None else _tuple(stride, n)
    padding = _tuple(padding, n)
    size = _unpool_output_size(input, kernel, steps, padding, output_size)
    if n == 1:
        return _ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)
    if n == 2:
        return _ops.max_unpool2d(input, indices, size)
    return _ops.max_unpool3d(input, indices, size, steps, padding)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the maxima of `max_pool1d` back where they were, with zeros elsewhere.

    Args:
        input: Maxima `(n, c, l)` or without `n`.
        indices: Places, as the pooling returned them, in the shape of `input`.
        kernel_size: Size of a window.
        stride: Distance between neighbouring windows. `None` means `kernel_size`.
        padding: Padding of the pooling.
        output_size: Sizes of the output, with or without batch and channels. `None` means the size below.

    Shape:
        Output `(n, c, l_out)` or without `n`.
        `l_out = (l - 1) * stride - 2 * padding + kernel_size`, unless `output_size` is given.

    Returns:
        Tensor of zeros with the maxima.

    Raises:
        ValueError: `output_size` does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> maxima, places = F.max_pool1d(torch.tensor([[[1.0, 2.0, 4.0, 3.0]]]), 2, return_indices=True)
        >>> F.max_unpool1d(maxima, places, 2)
        tensor([[[0., 2., 4., 0.]]])
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the maxima of `max_pool2d` back where they were, with zeros elsewhere.

    Args:
        input: Maxima `(n, c, h, w)` or without `n`.
        indices: Places, as the pooling returned them, in the shape of `input`.
        kernel_size: Size of a window. An integer stands for both dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for both
            dimensions.
        padding: Padding of the pooling. An integer stands for both dimensions.
        output_size: Sizes of the output, with or without batch and channels. `None` means the size below.

    Shape:
        Output `(n, c, h_out, w_out)` or without `n`.
        `h_out = (h - 1) * stride - 2 * padding + kernel_size`, and `w_out` likewise, unless `output_size` is
            given.

    Returns:
        Tensor of zeros with the maxima.

    Raises:
        ValueError: `output_size` does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> maxima, places = F.max_pool2d(torch.tensor([[[[1.0, 2.0], [4.0, 3.0]]]]), 2, return_indices=True)
        >>> F.max_unpool2d(maxima, places, 2)
        tensor([[[[0., 0.],
                  [4., 0.]]]])
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the maxima of `max_pool3d` back where they were, with zeros elsewhere.

    Args:
        input: Maxima `(n, c, d, h, w)` or without `n`.
        indices: Places, as the pooling returned them, in the shape of `input`.
        kernel_size: Size of a window. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for all
            three dimensions.
        padding: Padding of the pooling. An integer stands for all three dimensions.
        output_size: Sizes of the output, with or without batch and channels. `None` means the size below.

    Shape:
        Output `(n, c, d_out, h_out, w_out)` or without `n`.
        `d_out = (d - 1) * stride - 2 * padding + kernel_size`, and `h_out` and `w_out` likewise, unless
            `output_size` is given.

    Returns:
        Tensor of zeros with the maxima.

    Raises:
        ValueError: `output_size` does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> maxima, places = F.max_pool3d(torch.randn(2, 3, 9, 9, 9), 3, stride=2, return_indices=True)
        >>> F.max_unpool3d(maxima, places, 3, stride=2).shape
        torch.Size([2, 3, 9, 9, 9])
    """
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
