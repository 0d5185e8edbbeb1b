"""Pooling, and its inverse."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytpu as torch
from pytpu import _C, Tensor

from .activation import relu

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.

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
    return _ops.avg_pool2d(
        input, kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad, divisor_override
    )


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


def _spatial(input, output_size, n):
    """Return `output_size` for `n` dimensions, with each `None` replaced by the size of the input."""
    if output_size is None:
        output_size = (None,) * n
    if isinstance(output_size, int):
        return (output_size,) * n
    size = input.size()
    if len(size) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    tail = size[len(size) - len(output_size) :]
    return tuple(have if want is None else want for have, want in zip(tail, output_size))


def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Return the mean of each window over one spatial dimension, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        input: Tensor `(n, c, l)` or without `n`.
        output_size: Spatial sizes of the output. `None` keeps the size of the input.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The means.

    Raises:
        ValueError: The input has too few dimensions.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.adaptive_avg_pool1d(torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]), 2)
        tensor([[[1.5000, 3.5000]]])
    """
    return _ops.adaptive_avg_pool1d(input, _spatial(input, output_size, 1))


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window, and its place, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        input: Tensor `(n, c, l)` or without `n`.
        output_size: Spatial sizes of the output. `None` keeps the size of the input.
        return_indices: Not used: the places are always returned.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The maxima, and their places in the flattened spatial dimensions, `int64`.

    Raises:
        ValueError: The input has too few dimensions.
        RuntimeError: A size does not fit.
    """
    return _ops.adaptive_max_pool1d(input, _spatial(input, output_size, 1))


if TYPE_CHECKING:

    @overload
    def adaptive_max_pool1d(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = ...
    ) -> Tensor: ...

    @overload
    def adaptive_max_pool1d(
        input: Tensor, output_size: int | Sequence[int | None] | None, *, return_indices: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def adaptive_max_pool1d(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = ...
    ) -> Tensor | tuple[Tensor, Tensor]: ...


def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maximum of each window over one spatial dimension, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        input: Tensor `(n, c, l)` or without `n`.
        output_size: Spatial sizes of the output. `None` keeps the size of the input.
        return_indices: Whether to return the places of the maxima too.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The maxima, or a pair of the maxima and their places.

    Raises:
        ValueError: The input has too few dimensions.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.adaptive_max_pool1d(torch.randn(2, 3, 8), 5).shape
        torch.Size([2, 3, 5])
    """
    pooled = adaptive_max_pool1d_with_indices(input, output_size)
    return pooled if return_indices else pooled[0]


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Return the mean of each window over two spatial dimensions, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        input: Tensor `(n, c, h, w)` or without `n`.
        output_size: Spatial sizes of the output. `None` keeps the size of the input. An integer stands for both
            dimensions.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The means.

    Raises:
        ValueError: The input has too few dimensions.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.adaptive_avg_pool2d(torch.randn(2, 3, 8, 8), 5).shape
        torch.Size([2, 3, 5, 5])
    """
    return _ops.adaptive_avg_pool2d(input, _spatial(input, output_size, 2))


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window, and its place, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        input: Tensor `(n, c, h, w)` or without `n`.
        output_size: Spatial sizes of the output. `None` keeps the size of the input. An integer stands for both
            dimensions.
        return_indices: Not used: the places are always returned.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The maxima, and their places in the flattened spatial dimensions, `int64`.

    Raises:
        ValueError: The input has too few dimensions.
        RuntimeError: A size does not fit.
    """
    return _ops.adaptive_max_pool2d(input, _spatial(input, output_size, 2))


if TYPE_CHECKING:

    @overload
    def adaptive_max_pool2d(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = ...
    ) -> Tensor: ...

    @overload
    def adaptive_max_pool2d(
        input: Tensor, output_size: int | Sequence[int | None] | None, *, return_indices: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def adaptive_max_pool2d(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = ...
    ) -> Tensor | tuple[Tensor, Tensor]: ...


def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maximum of each window over two spatial dimensions, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        input: Tensor `(n, c, h, w)` or without `n`.
        output_size: Spatial sizes of the output. `None` keeps the size of the input. An integer stands for both
            dimensions.
        return_indices: Whether to return the places of the maxima too.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The maxima, or a pair of the maxima and their places.

    Raises:
        ValueError: The input has too few dimensions.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.adaptive_max_pool2d(torch.randn(2, 3, 8, 8), 5).shape
        torch.Size([2, 3, 5, 5])
    """
    pooled = adaptive_max_pool2d_with_indices(input, output_size)
    return pooled if return_indices else pooled[0]


def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Return the mean of each window over three spatial dimensions, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        input: Tensor `(n, c, d, h, w)` or without `n`.
        output_size: Spatial sizes of the output. `None` keeps the size of the input. An integer stands for all
            three dimensions.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The means.

    Raises:
        ValueError: The input has too few dimensions.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.adaptive_avg_pool3d(torch.randn(2, 3, 8, 8, 8), 5).shape
        torch.Size([2, 3, 5, 5, 5])
    """
    return _ops.adaptive_avg_pool3d(input, _spatial(input, output_size, 3))


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window, and its place, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        input: Tensor `(n, c, d, h, w)` or without `n`.
        output_size: Spatial sizes of the output. `None` keeps the size of the input. An integer stands for all
            three dimensions.
        return_indices: Not used: the places are always returned.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The maxima, and their places in the flattened spatial dimensions, `int64`.

    Raises:
        ValueError: The input has too few dimensions.
        RuntimeError: A size does not fit.
    """
    return _ops.adaptive_max_pool3d(input, _spatial(input, output_size, 3))


if TYPE_CHECKING:

    @overload
    def adaptive_max_pool3d(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = ...
    ) -> Tensor: ...

    @overload
    def adaptive_max_pool3d(
        input: Tensor, output_size: int | Sequence[int | None] | None, *, return_indices: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def adaptive_max_pool3d(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = ...
    ) -> Tensor | tuple[Tensor, Tensor]: ...


def adaptive_max_pool3d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maximum of each window over three spatial dimensions, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        input: Tensor `(n, c, d, h, w)` or without `n`.
        output_size: Spatial sizes of the output. `None` keeps the size of the input. An integer stands for all
            three dimensions.
        return_indices: Whether to return the places of the maxima too.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The maxima, or a pair of the maxima and their places.

    Raises:
        ValueError: The input has too few dimensions.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.adaptive_max_pool3d(torch.randn(2, 3, 8, 8, 8), 5).shape
        torch.Size([2, 3, 5, 5, 5])
    """
    pooled = adaptive_max_pool3d_with_indices(input, output_size)
    return pooled if return_indices else pooled[0]


def _fractional(n, input, kernel_size, output_size, output_ratio, _random_samples):
    name = f"fractional_max_pool{n}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratio = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
        output_size = [int(size * r) for size, r in zip(input.size()[-n:], ratio)]
    if _random_samples is None:
        batch = 1 if input.dim() == n + 1 else input.size(0)
        _random_samples = torch.rand(batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
    return getattr(_ops, name)(input, _tuple(kernel_size, n), _tuple(output_size, n), _random_samples)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each of randomly placed windows, and its place.

    Args:
        input: Tensor `(n, c, h, w)` or without `n`.
        kernel_size: Size of a window. An integer stands for both dimensions.
        output_size: Spatial sizes of the output. An integer stands for both dimensions.
        output_ratio: Spatial sizes of the output as parts of those of the input, between 0 and 1. Used where
            there is no `output_size`.
        return_indices: Not used: the places are always returned.
        _random_samples: Tensor `(n, c, 2)` in `[0, 1)` to place the windows by, instead of new random numbers.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The maxima, and their places in the flattened spatial dimensions, `int64`.

    Raises:
        ValueError: There is neither `output_size` nor `output_ratio`.
        RuntimeError: A size does not fit.
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


if TYPE_CHECKING:

    @overload
    def fractional_max_pool2d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = ...,
        output_ratio: float | Sequence[float] | None = ...,
        return_indices: Literal[False] = ...,
        _random_samples: Tensor | None = ...,
    ) -> Tensor: ...

    @overload
    def fractional_max_pool2d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = ...,
        output_ratio: float | Sequence[float] | None = ...,
        *,
        return_indices: Literal[True],
        _random_samples: Tensor | None = ...,
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def fractional_max_pool2d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = ...,
        output_ratio: float | Sequence[float] | None = ...,
        return_indices: bool = ...,
        _random_samples: Tensor | None = ...,
    ) -> Tensor | tuple[Tensor, Tensor]: ...


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maximum of each of randomly placed windows over two spatial dimensions.

    Args:
        input: Tensor `(n, c, h, w)` or without `n`.
        kernel_size: Size of a window. An integer stands for both dimensions.
        output_size: Spatial sizes of the output. An integer stands for both dimensions.
        output_ratio: Spatial sizes of the output as parts of those of the input, between 0 and 1. Used where
            there is no `output_size`.
        return_indices: Whether to return the places of the maxima too.
        _random_samples: Tensor `(n, c, 2)` in `[0, 1)` to place the windows by, instead of new random numbers.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The maxima, or a pair of the maxima and their places.

    Raises:
        ValueError: There is neither `output_size` nor `output_ratio`.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.fractional_max_pool2d(torch.randn(2, 3, 8, 8), 3, output_ratio=0.5).shape
        torch.Size([2, 3, 4, 4])
    """
    pooled = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return pooled if return_indices else pooled[0]


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each of randomly placed windows, and its place.

    Args:
        input: Tensor `(n, c, d, h, w)` or without `n`.
        kernel_size: Size of a window. An integer stands for all three dimensions.
        output_size: Spatial sizes of the output. An integer stands for all three dimensions.
        output_ratio: Spatial sizes of the output as parts of those of the input, between 0 and 1. Used where
            there is no `output_size`.
        return_indices: Not used: the places are always returned.
        _random_samples: Tensor `(n, c, 3)` in `[0, 1)` to place the windows by, instead of new random numbers.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The maxima, and their places in the flattened spatial dimensions, `int64`.

    Raises:
        ValueError: There is neither `output_size` nor `output_ratio`.
        RuntimeError: A size does not fit.
    """
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


if TYPE_CHECKING:

    @overload
    def fractional_max_pool3d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = ...,
        output_ratio: float | Sequence[float] | None = ...,
        return_indices: Literal[False] = ...,
        _random_samples: Tensor | None = ...,
    ) -> Tensor: ...

    @overload
    def fractional_max_pool3d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = ...,
        output_ratio: float | Sequence[float] | None = ...,
        *,
        return_indices: Literal[True],
        _random_samples: Tensor | None = ...,
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def fractional_max_pool3d(
        input: Tensor,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = ...,
        output_ratio: float | Sequence[float] | None = ...,
        return_indices: bool = ...,
        _random_samples: Tensor | None = ...,
    ) -> Tensor | tuple[Tensor, Tensor]: ...


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maximum of each of randomly placed windows over three spatial dimensions.

    Args:
        input: Tensor `(n, c, d, h, w)` or without `n`.
        kernel_size: Size of a window. An integer stands for all three dimensions.
        output_size: Spatial sizes of the output. An integer stands for all three dimensions.
        output_ratio: Spatial sizes of the output as parts of those of the input, between 0 and 1. Used where
            there is no `output_size`.
        return_indices: Whether to return the places of the maxima too.
        _random_samples: Tensor `(n, c, 3)` in `[0, 1)` to place the windows by, instead of new random numbers.

    Shape:
        Output `(n, c, *output_size)` or without `n`.

    Returns:
        The maxima, or a pair of the maxima and their places.

    Raises:
        ValueError: There is neither `output_size` nor `output_ratio`.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.fractional_max_pool3d(torch.randn(2, 3, 8, 8, 8), 3, output_ratio=0.5).shape
        torch.Size([2, 3, 4, 4, 4])
    """
    pooled = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return pooled if return_indices else pooled[0]


def _lp_pool(maximum, average, n, input, norm_type, kernel_size, stride, ceil_mode):
    if norm_type == 0:
        raise ValueError(f"norm_type must be a non-zero value, but got {norm_type}")
    if norm_type == math.inf:
        return maximum(torch.abs(input), kernel_size, stride, 0, 1, ceil_mode)
    kernel = _tuple(kernel_size, n)
    mean = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return (torch.sign(mean) * relu(torch.abs(mean)) * math.prod(kernel)).pow(1.0 / norm_type)


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
