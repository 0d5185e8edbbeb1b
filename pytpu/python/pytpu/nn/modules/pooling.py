"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence

from pytpu import Tensor
from pytpu.nn import functional as F

from .module import Module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pytpu.nn.common_types import _ratio_any_t, _size_1_t, _size_any_opt_t, _size_any_t


def _tuple(value, n):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


class _MaxPoolNd(Module):
    def __init__(
        self,
        kernel_size: _size_any_t,
        stride: _size_any_t | None = None,
        padding: _size_any_t = 0,
        dilation: _size_any_t = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )

    def _pool(self, function, input):
        return function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class MaxPool1d(_MaxPoolNd):
    """Return the maximum of each window over one spatial dimension.

    Args:
        kernel_size: Size of a window.
        stride: Distance between neighbouring windows. `None` means `kernel_size`.
        padding: Elements of negative infinity to add at both ends of each spatial dimension. At most half of
            `kernel_size`.
        dilation: Distance between neighbouring elements of a window.
        return_indices: Whether to return the places of the maxima too, as `MaxUnpool1d` takes them.
        ceil_mode: Whether to round the output size up instead of down.

    Shape:
        Input `(n, c, l)` or without `n`; output `(n, c, l_out)` or without `n`.
        `l_out = floor((l + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.MaxPool1d(3, stride=2)(torch.randn(2, 3, 8)).shape
        torch.Size([2, 3, 3])
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the maxima of `input`, and their places if `return_indices` is set."""
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """Return the maximum of each window over two spatial dimensions.

    Args:
        kernel_size: Size of a window. An integer stands for both dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for both
            dimensions.
        padding: Elements of negative infinity to add at both ends of each spatial dimension. At most half of
            `kernel_size`.
        dilation: Distance between neighbouring elements of a window. An integer stands for both dimensions.
        return_indices: Whether to return the places of the maxima too, as `MaxUnpool2d` takes them.
        ceil_mode: Whether to round the output size up instead of down.

    Shape:
        Input `(n, c, h, w)` or without `n`; output `(n, c, h_out, w_out)` or without `n`.
        `h_out = floor((h + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`, and `w_out`
            likewise.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.MaxPool2d(3, stride=2)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 3, 3])
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the maxima of `input`, and their places if `return_indices` is set."""
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """Return the maximum of each window over three spatial dimensions.

    Args:
        kernel_size: Size of a window. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for all
            three dimensions.
        padding: Elements of negative infinity to add at both ends of each spatial dimension. At most half of
            `kernel_size`.
        dilation: Distance between neighbouring elements of a window. An integer stands for all three
            dimensions.
        return_indices: Whether to return the places of the maxima too, as `MaxUnpool3d` takes them.
        ceil_mode: Whether to round the output size up instead of down.

    Shape:
        Input `(n, c, d, h, w)` or without `n`; output `(n, c, d_out, h_out, w_out)` or without `n`.
        `d_out = floor((d + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`, and `h_out` and
            `w_out` likewise.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.MaxPool3d(3, stride=2)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 3, 3, 3])
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the maxima of `input`, and their places if `return_indices` is set."""
        return self._pool(F.max_pool3d, input)


class _MaxUnpoolNd(Module):
    _n = 0

    def __init__(self, kernel_size: _size_any_t, stride: _size_any_t | None = None, padding: _size_any_t = 0) -> None:
        super().__init__()
        self.kernel_size = _tuple(kernel_size, self._n)
        self.stride = _tuple(stride if stride is not None else kernel_size, self._n)
        self.padding = _tuple(padding, self._n)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Put the maxima of `MaxPool1d` back where they were, with zeros elsewhere.

    Args:
        kernel_size: Size of a window.
        stride: Distance between neighbouring windows. `None` means `kernel_size`.
        padding: Padding of the pooling.

    Shape:
        Input `(n, c, l)` or without `n`; output `(n, c, l_out)` or without `n`.
        `l_out = (l - 1) * stride - 2 * padding + kernel_size`, unless `output_size` is given.

    Example:
        >>> import pytpu as torch
        >>> pool, unpool = torch.nn.MaxPool1d(2, return_indices=True), torch.nn.MaxUnpool1d(2)
        >>> unpool(*pool(torch.tensor([[[1.0, 2.0, 4.0, 3.0]]])))
        tensor([[[0., 2., 4., 0.]]])
    """

    _n = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the maxima at their places.

        Args:
            input: Maxima.
            indices: Places, as the pooling returned them, in the shape of `input`.
            output_size: Sizes of the output, with or without batch and channels, where several are possible. `None`
                takes the size in the class documentation.

        Returns:
            Tensor of zeros with the maxima.

        Raises:
            ValueError: `output_size` does not fit.
        """
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Put the maxima of `MaxPool2d` back where they were, with zeros elsewhere.

    Args:
        kernel_size: Size of a window. An integer stands for both dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for both
            dimensions.
        padding: Padding of the pooling. An integer stands for both dimensions.

    Shape:
        Input `(n, c, h, w)` or without `n`; output `(n, c, h_out, w_out)` or without `n`.
        `h_out = (h - 1) * stride - 2 * padding + kernel_size`, and `w_out` likewise, unless `output_size` is
            given.

    Example:
        >>> import pytpu as torch
        >>> pool, unpool = torch.nn.MaxPool2d(2, return_indices=True), torch.nn.MaxUnpool2d(2)
        >>> unpool(*pool(torch.tensor([[[[1.0, 2.0], [4.0, 3.0]]]])))
        tensor([[[[0., 0.],
                  [4., 0.]]]])
    """

    _n = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the maxima at their places.

        Args:
            input: Maxima.
            indices: Places, as the pooling returned them, in the shape of `input`.
            output_size: Sizes of the output, with or without batch and channels, where several are possible. `None`
                takes the size in the class documentation.

        Returns:
            Tensor of zeros with the maxima.

        Raises:
            ValueError: `output_size` does not fit.
        """
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Put the maxima of `MaxPool3d` back where they were, with zeros elsewhere.

    Args:
        kernel_size: Size of a window. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for all
            three dimensions.
        padding: Padding of the pooling. An integer stands for all three dimensions.

    Shape:
        Input `(n, c, d, h, w)` or without `n`; output `(n, c, d_out, h_out, w_out)` or without `n`.
        `d_out = (d - 1) * stride - 2 * padding + kernel_size`, and `h_out` and `w_out` likewise, unless
            `output_size` is given.

    Example:
        >>> import pytpu as torch
        >>> pool, unpool = torch.nn.MaxPool3d(3, stride=2, return_indices=True), torch.nn.MaxUnpool3d(3, stride=2)
        >>> unpool(*pool(torch.randn(2, 3, 9, 9, 9))).shape
        torch.Size([2, 3, 9, 9, 9])
    """

    _n = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the maxima at their places.

        Args:
            input: Maxima.
            indices: Places, as the pooling returned them, in the shape of `input`.
            output_size: Sizes of the output, with or without batch and channels, where several are possible. `None`
                takes the size in the class documentation.

        Returns:
            Tensor of zeros with the maxima.

        Raises:
            ValueError: `output_size` does not fit.
        """
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class AvgPool1d(Module):
    """Return the mean of each window over one spatial dimension.

    Args:
        kernel_size: Size of a window.
        stride: Distance between neighbouring windows. `None` means `kernel_size`.
        padding: Zeros to add at both ends of each spatial dimension. At most half of `kernel_size`.
        ceil_mode: Whether to round the output size up instead of down.
        count_include_pad: Whether the padding counts in the mean.

    Shape:
        Input `(n, c, l)` or without `n`; output `(n, c, l_out)` or without `n`.
        `l_out = floor((l + 2 * padding - kernel_size) / stride) + 1`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.AvgPool1d(3, stride=2)(torch.tensor([[[1.0, 2.0, 3.0, 4.0, 5.0]]]))
        tensor([[[2., 4.]]])
    """

    def __init__(
        self,
        kernel_size: _size_1_t,
        stride: _size_1_t | None = None,
        padding: _size_1_t = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _tuple(kernel_size, 1)
        self.stride = _tuple(stride if stride is not None else kernel_size, 1)
        self.padding = _tuple(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Return the means of `input`."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(Module):
    def __init__(
        self,
        kernel_size: _size_any_t,
        stride: _size_any_t | None = None,
        padding: _size_any_t = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"

    def _pool(self, function, input):
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolNd):
    """Return the mean of each window over two spatial dimensions.

    Args:
        kernel_size: Size of a window. An integer stands for both dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for both
            dimensions.
        padding: Zeros to add at both ends of each spatial dimension. At most half of `kernel_size`.
        ceil_mode: Whether to round the output size up instead of down.
        count_include_pad: Whether the padding counts in the mean.
        divisor_override: Number to divide the sums by. `None` means the number of elements. Not 0.

    Shape:
        Input `(n, c, h, w)` or without `n`; output `(n, c, h_out, w_out)` or without `n`.
        `h_out = floor((h + 2 * padding - kernel_size) / stride) + 1`, and `w_out` likewise.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.AvgPool2d(3, stride=2)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 3, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the means of `input`."""
        return self._pool(F.avg_pool2d, input)


class AvgPool3d(_AvgPoolNd):
    """Return the mean of each window over three spatial dimensions.

    Args:
        kernel_size: Size of a window. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for all
            three dimensions.
        padding: Zeros to add at both ends of each spatial dimension. At most half of `kernel_size`.
        ceil_mode: Whether to round the output size up instead of down.
        count_include_pad: Whether the padding counts in the mean.
        divisor_override: Number to divide the sums by. `None` means the number of elements. Not 0.

    Shape:
        Input `(n, c, d, h, w)` or without `n`; output `(n, c, d_out, h_out, w_out)` or without `n`.
        `d_out = floor((d + 2 * padding - kernel_size) / stride) + 1`, and `h_out` and `w_out` likewise.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.AvgPool3d(3, stride=2)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 3, 3, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the means of `input`."""
        return self._pool(F.avg_pool3d, input)


class _FractionalMaxPoolNd(Module):
    _n = 0

    def __init__(
        self,
        kernel_size: _size_any_t,
        output_size: _size_any_t | None = None,
        output_ratio: _ratio_any_t | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        n = self._n
        if (
            isinstance(kernel_size, int)
            and kernel_size <= 0
            or (not isinstance(kernel_size, int) and any(k <= 0 for k in kernel_size))
        ):
            raise ValueError(f"kernel_size must greater than zero, but got {kernel_size}")
        self.kernel_size = _tuple(kernel_size, n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = _tuple(output_size, n) if output_size is not None else None
        self.output_ratio = _tuple(output_ratio, n) if output_ratio is not None else None
        name = f"FractionalMaxPool{n}d"
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _pool(self, function, input):
        return function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Return the maximum of each of randomly placed windows over two spatial dimensions.

    Give either `output_size` or `output_ratio`. Each call draws new places.

    Args:
        kernel_size: Size of a window. An integer stands for both dimensions.
        output_size: Spatial sizes of the output. An integer stands for both dimensions.
        output_ratio: Spatial sizes of the output as parts of those of the input, between 0 and 1.
        return_indices: Whether to return the places of the maxima too, as `MaxUnpool2d` takes them.
        _random_samples: Tensor `(n, c, 2)` in `[0, 1)` to place the windows by, instead of new random numbers.

    Shape:
        Input `(n, c, h, w)` or without `n`; output `(n, c, *output_size)` or without `n`.

    Raises:
        ValueError: `kernel_size` is not positive, both or none of `output_size` and `output_ratio` are given,
            or a ratio is not between 0 and 1.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.FractionalMaxPool2d(3, output_ratio=0.5)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 4, 4])
    """

    _n = 2

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the maxima of `input`, and their places if `return_indices` is set."""
        return self._pool(F.fractional_max_pool2d, input)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Return the maximum of each of randomly placed windows over three spatial dimensions.

    Give either `output_size` or `output_ratio`. Each call draws new places.

    Args:
        kernel_size: Size of a window. An integer stands for all three dimensions.
        output_size: Spatial sizes of the output. An integer stands for all three dimensions.
        output_ratio: Spatial sizes of the output as parts of those of the input, between 0 and 1.
        return_indices: Whether to return the places of the maxima too, as `MaxUnpool3d` takes them.
        _random_samples: Tensor `(n, c, 3)` in `[0, 1)` to place the windows by, instead of new random numbers.

    Shape:
        Input `(n, c, d, h, w)` or without `n`; output `(n, c, *output_size)` or without `n`.

    Raises:
        ValueError: `kernel_size` is not positive, both or none of `output_size` and `output_ratio` are given,
            or a ratio is not between 0 and 1.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.FractionalMaxPool3d(3, output_ratio=0.5)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 4, 4, 4])
    """

    _n = 3

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the maxima of `input`, and their places if `return_indices` is set."""
        return self._pool(F.fractional_max_pool3d, input)


class _LPPoolNd(Module):
    def __init__(
        self, norm_type: float, kernel_size: _size_any_t, stride: _size_any_t | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """Return the p-norm of each window over one spatial dimension.

    `y = (sum x^p)^(1 / p)`, where the sum runs over the window.

    Args:
        norm_type: Exponent `p`. `inf` gives the maximum of the absolute values. Not 0.
        kernel_size: Size of a window.
        stride: Distance between neighbouring windows. `None` means `kernel_size`.
        ceil_mode: Whether to round the output size up instead of down.

    Shape:
        Input `(n, c, l)` or without `n`; output `(n, c, l_out)` or without `n`.
        `l_out = floor((l - kernel_size) / stride) + 1`.

    Raises:
        ValueError: `norm_type` is 0.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.LPPool1d(2, 2)(torch.tensor([[[3.0, 4.0]]]))
        tensor([[[5.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms of the windows of `input`."""
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """Return the p-norm of each window over two spatial dimensions.

    `y = (sum x^p)^(1 / p)`, where the sum runs over the window.

    Args:
        norm_type: Exponent `p`. `inf` gives the maximum of the absolute values. Not 0.
        kernel_size: Size of a window. An integer stands for both dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for both
            dimensions.
        ceil_mode: Whether to round the output size up instead of down.

    Shape:
        Input `(n, c, h, w)` or without `n`; output `(n, c, h_out, w_out)` or without `n`.
        `h_out = floor((h - kernel_size) / stride) + 1`, and `w_out` likewise.

    Raises:
        ValueError: `norm_type` is 0.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.LPPool2d(2, 3, stride=2)(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 3, 3, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms of the windows of `input`."""
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """Return the p-norm of each window over three spatial dimensions.

    `y = (sum x^p)^(1 / p)`, where the sum runs over the window.

    Args:
        norm_type: Exponent `p`. `inf` gives the maximum of the absolute values. Not 0.
        kernel_size: Size of a window. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows. `None` means `kernel_size`. An integer stands for all
            three dimensions.
        ceil_mode: Whether to round the output size up instead of down.

    Shape:
        Input `(n, c, d, h, w)` or without `n`; output `(n, c, d_out, h_out, w_out)` or without `n`.
        `d_out = floor((d - kernel_size) / stride) + 1`, and `h_out` and `w_out` likewise.

    Raises:
        ValueError: `norm_type` is 0.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.LPPool3d(2, 3, stride=2)(torch.rand(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 3, 3, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms of the windows of `input`."""
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _AdaptiveMaxPoolNd(Module):
    def __init__(self, output_size: _size_any_opt_t, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Return the maximum of each window over one spatial dimension, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        output_size: Spatial sizes of the output. `None` keeps the size of the input.
        return_indices: Whether to return the places of the maxima too.

    Shape:
        Input `(n, c, l)` or without `n`; output `(n, c, *output_size)` or without `n`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.AdaptiveMaxPool1d(5)(torch.randn(2, 3, 8)).shape
        torch.Size([2, 3, 5])
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the maxima of `input`, and their places if `return_indices` is set."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Return the maximum of each window over two spatial dimensions, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        output_size: Spatial sizes of the output. `None` keeps the size of the input. An integer stands for both
            dimensions.
        return_indices: Whether to return the places of the maxima too.

    Shape:
        Input `(n, c, h, w)` or without `n`; output `(n, c, *output_size)` or without `n`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.AdaptiveMaxPool2d(5)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 5, 5])
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the maxima of `input`, and their places if `return_indices` is set."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Return the maximum of each window over three spatial dimensions, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        output_size: Spatial sizes of the output. `None` keeps the size of the input. An integer stands for all
            three dimensions.
        return_indices: Whether to return the places of the maxima too.

    Shape:
        Input `(n, c, d, h, w)` or without `n`; output `(n, c, *output_size)` or without `n`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.AdaptiveMaxPool3d(5)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 5, 5, 5])
    """

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the maxima of `input`, and their places if `return_indices` is set."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    def __init__(self, output_size: _size_any_opt_t) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Return the mean of each window over one spatial dimension, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        output_size: Spatial sizes of the output. `None` keeps the size of the input.

    Shape:
        Input `(n, c, l)` or without `n`; output `(n, c, *output_size)` or without `n`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.AdaptiveAvgPool1d(2)(torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]))
        tensor([[[1.5000, 3.5000]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the means of `input`."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Return the mean of each window over two spatial dimensions, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        output_size: Spatial sizes of the output. `None` keeps the size of the input. An integer stands for both
            dimensions.

    Shape:
        Input `(n, c, h, w)` or without `n`; output `(n, c, *output_size)` or without `n`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.AdaptiveAvgPool2d(5)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 5, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the means of `input`."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Return the mean of each window over three spatial dimensions, with windows that give a set output size.

    Window `i` of a dimension goes from `floor(i * size / output_size)` to `ceil((i + 1) * size / output_size)`.

    Args:
        output_size: Spatial sizes of the output. `None` keeps the size of the input. An integer stands for all
            three dimensions.

    Shape:
        Input `(n, c, d, h, w)` or without `n`; output `(n, c, *output_size)` or without `n`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.AdaptiveAvgPool3d(5)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 5, 5, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the means of `input`."""
        return F.adaptive_avg_pool3d(input, self.output_size)
