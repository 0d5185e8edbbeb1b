"""Pooling to a given size: adaptive and fractional pooling."""

from __future__ import annotations

from collections.abc import Sequence

import pytpu as torch
from pytpu import _C, Tensor

from .pooling import _tuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Literal, overload


_ops = _C._ops


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
