"""Pooling with windows of a given size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytpu as torch
from pytpu import _C, Tensor

from .activation import relu

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Literal, overload


_ops = _C._ops


def _tuple(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window over one spatial dimension, and its place.

    Args:
        input: Tensor `(n, c, l)` or without `n`.
        kernel_size: Size of a window.
        stride: Distance between neighbouring windows. `None` means `kernel_size`.
        padding: Elements of negative infinity to add at both ends of each spatial dimension. At most half of
            `kernel_size`.
        dilation: Distance between neighbouring elements of a window.
        ceil_mode: Whether to round the output size up instead of down.
        return_indices: Not used: the places are always returned.

    Shape:
        Output `(n, c, l_out)` or without `n`.
        `l_out = floor((l + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`.

    Returns:
        The maxima, and their places in the flattened spatial dimensions, `int64`.

    Raises:
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.max_pool1d_with_indices(torch.tensor([[[1.0, 2.0, 4.0, 3.0]]]), 2)
        (tensor([[[2., 4.]]]), tensor([[[1, 2]]]))
    """
    return _ops.max_pool1d_with_indices(
        input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode
    )


if TYPE_CHECKING:

    @overload
    def max_pool1d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = ...,
        padding: int | Sequence[int] = ...,
        dilation: int | Sequence[int] = ...,
        ceil_mode: bool = ...,
        return_indices: Literal[False] = ...,
    ) -> Tensor: ...

    @overload
    def max_pool1d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = ...,
        padding: int | Sequence[int] = ...,
        dilation: int | Sequence[int] = ...,
        ceil_mode: bool = ...,
        *,
        return_indices: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def max_pool1d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = ...,
        padding: int | Sequence[int] = ...,
        dilation: int | Sequence[int] = ...,
        ceil_mode: bool = ...,
        return_indices: bool = ...,
    ) -> Tensor | tuple[Tensor, Tensor]: ...


def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maximum of each window over one spatial dimension.

    Args:
        input: Tensor `(n, c, l)` or without `n`.
        kernel_size: Size of a window.
        stride: Distance between neighbouring windows. `None` means `kernel_size`.
        padding: Elements of negative infinity to add at both ends of each spatial dimension. At most half of
            `kernel_size`.
        dilation: Distance between neighbouring elements of a window.
        ceil_mode: Whether to round the output size up instead of down.
        return_indices: Whether to return the places of the maxima too, as `max_unpool1d` takes them.

    Shape:
        Output `(n, c, l_out)` or without `n`.
        `l_out = floor((l + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`.

    Returns:
        The maxima, or a pair of the maxima and their places.

    Raises:
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.max_pool1d(torch.tensor([[[1.0, 2.0, 4.0, 3.0]]]), 2)
        tensor([[[2., 4.]]])
    """
    op = _ops.max_pool1d_with_indices if return_indices else _ops.max_pool1d
    return op(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window over two spatial dimensions, and its place.

    Args:
        input: Tensor `(n, c, h, w)` or without `n`.
        kernel_size: Size of a window. An integer stands for both dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for both
            dimensions.
        padding: Elements of negative infinity to add at both ends of each spatial dimension. At most half of
            `kernel_size`.
        dilation: Distance between neighbouring elements of a window. An integer stands for both dimensions.
        ceil_mode: Whether to round the output size up instead of down.
        return_indices: Not used: the places are always returned.

    Shape:
        Output `(n, c, h_out, w_out)` or without `n`.
        `h_out = floor((h + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`, and `w_out`
            likewise.

    Returns:
        The maxima, and their places in the flattened spatial dimensions, `int64`.

    Raises:
        RuntimeError: A size does not fit.
    """
    return _ops.max_pool2d_with_indices(
        input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode
    )


if TYPE_CHECKING:

    @overload
    def max_pool2d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = ...,
        padding: int | Sequence[int] = ...,
        dilation: int | Sequence[int] = ...,
        ceil_mode: bool = ...,
        return_indices: Literal[False] = ...,
    ) -> Tensor: ...

    @overload
    def max_pool2d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = ...,
        padding: int | Sequence[int] = ...,
        dilation: int | Sequence[int] = ...,
        ceil_mode: bool = ...,
        *,
        return_indices: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def max_pool2d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = ...,
        padding: int | Sequence[int] = ...,
        dilation: int | Sequence[int] = ...,
        ceil_mode: bool = ...,
        return_indices: bool = ...,
    ) -> Tensor | tuple[Tensor, Tensor]: ...


def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maximum of each window over two spatial dimensions.

    Args:
        input: Tensor `(n, c, h, w)` or without `n`.
        kernel_size: Size of a window. An integer stands for both dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for both
            dimensions.
        padding: Elements of negative infinity to add at both ends of each spatial dimension. At most half of
            `kernel_size`.
        dilation: Distance between neighbouring elements of a window. An integer stands for both dimensions.
        ceil_mode: Whether to round the output size up instead of down.
        return_indices: Whether to return the places of the maxima too, as `max_unpool2d` takes them.

    Shape:
        Output `(n, c, h_out, w_out)` or without `n`.
        `h_out = floor((h + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`, and `w_out`
            likewise.

    Returns:
        The maxima, or a pair of the maxima and their places.

    Raises:
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.max_pool2d(torch.randn(2, 3, 8, 8), 3, stride=2).shape
        torch.Size([2, 3, 3, 3])
    """
    op = _ops.max_pool2d_with_indices if return_indices else _ops.max_pool2d
    return op(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window over three spatial dimensions, and its place.

    Args:
        input: Tensor `(n, c, d, h, w)` or without `n`.
        kernel_size: Size of a window. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for all
            three dimensions.
        padding: Elements of negative infinity to add at both ends of each spatial dimension. At most half of
            `kernel_size`.
        dilation: Distance between neighbouring elements of a window. An integer stands for all three
            dimensions.
        ceil_mode: Whether to round the output size up instead of down.
        return_indices: Not used: the places are always returned.

    Shape:
        Output `(n, c, d_out, h_out, w_out)` or without `n`.
        `d_out = floor((d + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`, and `h_out` and
            `w_out` likewise.

    Returns:
        The maxima, and their places in the flattened spatial dimensions, `int64`.

    Raises:
        RuntimeError: A size does not fit.
    """
    return _ops.max_pool3d_with_indices(
        input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode
    )


if TYPE_CHECKING:

    @overload
    def max_pool3d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = ...,
        padding: int | Sequence[int] = ...,
        dilation: int | Sequence[int] = ...,
        ceil_mode: bool = ...,
        return_indices: Literal[False] = ...,
    ) -> Tensor: ...

    @overload
    def max_pool3d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = ...,
        padding: int | Sequence[int] = ...,
        dilation: int | Sequence[int] = ...,
        ceil_mode: bool = ...,
        *,
        return_indices: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def max_pool3d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = ...,
        padding: int | Sequence[int] = ...,
        dilation: int | Sequence[int] = ...,
        ceil_mode: bool = ...,
        return_indices: bool = ...,
    ) -> Tensor | tuple[Tensor, Tensor]: ...


def max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maximum of each window over three spatial dimensions.

    Args:
        input: Tensor `(n, c, d, h, w)` or without `n`.
        kernel_size: Size of a window. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for all
            three dimensions.
        padding: Elements of negative infinity to add at both ends of each spatial dimension. At most half of
            `kernel_size`.
        dilation: Distance between neighbouring elements of a window. An integer stands for all three
            dimensions.
        ceil_mode: Whether to round the output size up instead of down.
        return_indices: Whether to return the places of the maxima too, as `max_unpool3d` takes them.

    Shape:
        Output `(n, c, d_out, h_out, w_out)` or without `n`.
        `d_out = floor((d + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`, and `h_out` and
            `w_out` likewise.

    Returns:
        The maxima, or a pair of the maxima and their places.

    Raises:
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.max_pool3d(torch.randn(2, 3, 8, 8, 8), 3, stride=2).shape
        torch.Size([2, 3, 3, 3, 3])
    """
    op = _ops.max_pool3d_with_indices if return_indices else _ops.max_pool3d
    return op(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)


def avg_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window over one spatial dimension.

    Args:
        input: Tensor `(n, c, l)` or without `n`.
        kernel_size: Size of a window.
        stride: Distance between neighbouring windows. `None` means `kernel_size`.
        padding: Zeros to add at both ends of each spatial dimension. At most half of `kernel_size`.
        ceil_mode: Whether to round the output size up instead of down.
        count_include_pad: Whether the padding counts in the mean.

    Shape:
        Output `(n, c, l_out)` or without `n`.
        `l_out = floor((l + 2 * padding - kernel_size) / stride) + 1`.

    Returns:
        The means.

    Raises:
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.avg_pool1d(torch.tensor([[[1.0, 2.0, 3.0, 4.0, 5.0]]]), 3, stride=2)
        tensor([[[2., 4.]]])
    """
    return _ops.avg_pool1d(input, kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the mean of each window over two spatial dimensions.

    Args:
        input: Tensor `(n, c, h, w)` or without `n`.
        kernel_size: Size of a window. An integer stands for both dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for both
            dimensions.
        padding: Zeros to add at both ends of each spatial dimension. At most half of `kernel_size`.
        ceil_mode: Whether to round the output size up instead of down.
        count_include_pad: Whether the padding counts in the mean.
        divisor_override: Number to divide the sums by. `None` means the number of elements. Not 0.
        out: Tensor to write the result to.

    Shape:
        Output `(n, c, h_out, w_out)` or without `n`.
        `h_out = floor((h + 2 * padding - kernel_size) / stride) + 1`, and `w_out` likewise.

    Returns:
        The means.

    Raises:
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.avg_pool2d(torch.randn(2, 3, 8, 8), 3, stride=2).shape
        torch.Size([2, 3, 3, 3])
    """
    stride = [] if stride is None else stride
    return _ops.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out=out)


def avg_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window over three spatial dimensions.

    Args:
        input: Tensor `(n, c, d, h, w)` or without `n`.
        kernel_size: Size of a window. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for all
            three dimensions.
        padding: Zeros to add at both ends of each spatial dimension. At most half of `kernel_size`.
        ceil_mode: Whether to round the output size up instead of down.
        count_include_pad: Whether the padding counts in the mean.
        divisor_override: Number to divide the sums by. `None` means the number of elements. Not 0.

    Shape:
        Output `(n, c, d_out, h_out, w_out)` or without `n`.
        `d_out = floor((d + 2 * padding - kernel_size) / stride) + 1`, and `h_out` and `w_out` likewise.

    Returns:
        The means.

    Raises:
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.avg_pool3d(torch.randn(2, 3, 8, 8, 8), 3, stride=2).shape
        torch.Size([2, 3, 3, 3, 3])
    """
    return _ops.avg_pool3d(
        input, kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _lp_pool(maximum, average, n, input, norm_type, kernel_size, stride, ceil_mode):
    if norm_type == 0:
        raise ValueError(f"norm_type must be a non-zero value, but got {norm_type}")
    if norm_type == math.inf:
        return maximum(torch.abs(input), kernel_size, stride, 0, 1, ceil_mode)
    kernel = _tuple(kernel_size, n)
    # Powers of 16-bit floats may overflow.
    wide = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    mean = average(wide.pow(norm_type), kernel, stride, 0, ceil_mode)
    return (torch.sign(mean) * relu(torch.abs(mean)) * math.prod(kernel)).pow(1.0 / norm_type).to(input.dtype)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-norm of each window over one spatial dimension.

    `y = (sum x^p)^(1 / p)`, where the sum runs over the window.

    Args:
        input: Tensor `(n, c, l)` or without `n`.
        norm_type: Exponent `p`. `inf` gives the maximum of the absolute values. Not 0.
        kernel_size: Size of a window.
        stride: Distance between neighbouring windows. `None` means `kernel_size`.
        ceil_mode: Whether to round the output size up instead of down.

    Shape:
        Output `(n, c, l_out)` or without `n`.
        `l_out = floor((l - kernel_size) / stride) + 1`.

    Returns:
        The norms.

    Raises:
        ValueError: `norm_type` is 0.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.lp_pool1d(torch.tensor([[[3.0, 4.0]]]), 2, 2)
        tensor([[[5.]]])
    """
    return _lp_pool(max_pool1d, avg_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-norm of each window over two spatial dimensions.

    `y = (sum x^p)^(1 / p)`, where the sum runs over the window.

    Args:
        input: Tensor `(n, c, h, w)` or without `n`.
        norm_type: Exponent `p`. `inf` gives the maximum of the absolute values. Not 0.
        kernel_size: Size of a window. An integer stands for both dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for both
            dimensions.
        ceil_mode: Whether to round the output size up instead of down.

    Shape:
        Output `(n, c, h_out, w_out)` or without `n`.
        `h_out = floor((h - kernel_size) / stride) + 1`, and `w_out` likewise.

    Returns:
        The norms.

    Raises:
        ValueError: `norm_type` is 0.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.lp_pool2d(torch.rand(2, 3, 8, 8), 2, 3, stride=2).shape
        torch.Size([2, 3, 3, 3])
    """
    return _lp_pool(max_pool2d, avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-norm of each window over three spatial dimensions.

    `y = (sum x^p)^(1 / p)`, where the sum runs over the window.

    Args:
        input: Tensor `(n, c, d, h, w)` or without `n`.
        norm_type: Exponent `p`. `inf` gives the maximum of the absolute values. Not 0.
        kernel_size: Size of a window. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for all
            three dimensions.
        ceil_mode: Whether to round the output size up instead of down.

    Shape:
        Output `(n, c, d_out, h_out, w_out)` or without `n`.
        `d_out = floor((d - kernel_size) / stride) + 1`, and `h_out` and `w_out` likewise.

    Returns:
        The norms.

    Raises:
        ValueError: `norm_type` is 0.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.lp_pool3d(torch.rand(2, 3, 8, 8, 8), 2, 3, stride=2).shape
        torch.Size([2, 3, 3, 3, 3])
    """
    return _lp_pool(max_pool3d, avg_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)
