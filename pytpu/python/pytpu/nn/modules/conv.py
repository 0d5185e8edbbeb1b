"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytpu as torch
from pytpu import _C, Tensor
from pytpu.nn import functional as F, init
from pytpu.nn.parameter import Parameter, UninitializedParameter

from .lazy import LazyModuleMixin
from .module import Module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Literal

    from pytpu.nn.common_types import _size_any_t
    from pytpu.types import Device


_ops = _C._ops


def _tuple(value, n):
    return (value,) * n if not isinstance(value, (tuple, list)) else tuple(value)


class _ConvNd(Module):
    _convolution: Callable[..., Tensor]
    weight: Parameter
    bias: Parameter | None
    _n = 0
    _transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"],
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                "padding_mode must be one of {'zeros', 'reflect', 'replicate', 'circular'}, "
                f"but got padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        # Padding for `F.pad`, which takes the last dimension first and both sides of each.
        if isinstance(padding, str):
            both = []
            for d, k in zip(reversed(dilation), reversed(kernel_size)):
                total = d * (k - 1) if padding == "same" else 0
                both += [total // 2, total - total // 2]
        else:
            both = [p for p in reversed(padding) for _ in range(2)]
        self._reversed_padding_repeated_twice = both
        self.weight = Parameter(torch.empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _weight_shape(self):
        outer, inner = self.out_channels, self.in_channels
        if self.transposed:
            outer, inner = inner, outer
        return (outer, inner // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Draw new values for `weight` and `bias`, uniform within one over the root of the fan-in."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes and the settings that are not defaults for the repr."""
        n = len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * n:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * n:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * n:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _size_any_t,
        stride: _size_any_t = 1,
        padding: str | _size_any_t = 0,
        dilation: _size_any_t = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        n = self._n
        super().__init__(
            in_channels,
            out_channels,
            _tuple(kernel_size, n),
            _tuple(stride, n),
            padding if isinstance(padding, str) else _tuple(padding, n),
            _tuple(dilation, n),
            False,
            (0,) * n,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return self._convolution(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of `input`. See the class for shapes."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolve an input with learned kernels over one spatial dimension.

    `out[i, j] = bias[j] + sum_k weight[j, k] * input[i, k]`, where `*` is cross-correlation and `k` runs over
    the channels of the group.

    Args:
        in_channels: Number of channels of the input. Divisible by `groups`.
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements.
        stride: Distance between neighbouring windows, in elements.
        padding: Elements to add at both ends of each spatial dimension. `"valid"` adds none. `"same"` keeps the
            size and needs `stride=1`.
        dilation: Distance between neighbouring elements of the kernel.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        padding_mode: Values of the padding: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(out_channels, in_channels / groups, kernel_size)`. Initial values are uniform in
            `[-b, b]` with `b = 1 / sqrt(in_channels / groups * prod(kernel_size))`.
        bias: Parameter `(out_channels,)` with initial values from the same range, or `None`.

    Shape:
        Input `(n, in_channels, l)` or without `n`; output `(n, out_channels, l_out)` or without `n`.
        `l_out = floor((l + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`.

    Raises:
        ValueError: `groups` does not divide the channels, or a padding or a padding mode is unknown.
        RuntimeError: The shape of the input does not fit.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Conv1d(16, 33, 3, stride=2)
        >>> layer(torch.randn(20, 16, 50)).shape
        torch.Size([20, 33, 24])
    """

    _n = 1
    _convolution = staticmethod(_ops.conv1d)


class Conv2d(_Conv):
    """Convolve an input with learned kernels over two spatial dimensions.

    `out[i, j] = bias[j] + sum_k weight[j, k] * input[i, k]`, where `*` is cross-correlation and `k` runs over
    the channels of the group.

    Args:
        in_channels: Number of channels of the input. Divisible by `groups`.
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements. An integer stands for both dimensions.
        stride: Distance between neighbouring windows, in elements. An integer stands for both dimensions.
        padding: Elements to add at both ends of each spatial dimension. `"valid"` adds none. `"same"` keeps the
            size and needs `stride=1`.
        dilation: Distance between neighbouring elements of the kernel. An integer stands for both dimensions.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        padding_mode: Values of the padding: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(out_channels, in_channels / groups, *kernel_size)`. Initial values are uniform in
            `[-b, b]` with `b = 1 / sqrt(in_channels / groups * prod(kernel_size))`.
        bias: Parameter `(out_channels,)` with initial values from the same range, or `None`.

    Shape:
        Input `(n, in_channels, h, w)` or without `n`; output `(n, out_channels, h_out, w_out)` or without `n`.
        `h_out = floor((h + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`, and `w_out`
            likewise.

    Raises:
        ValueError: `groups` does not divide the channels, or a padding or a padding mode is unknown.
        RuntimeError: The shape of the input does not fit.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Conv2d(16, 33, (3, 5), stride=(2, 1), padding=(4, 2))
        >>> layer(torch.randn(20, 16, 50, 100)).shape
        torch.Size([20, 33, 28, 100])
    """

    _n = 2
    _convolution = staticmethod(_ops.conv2d)


class Conv3d(_Conv):
    """Convolve an input with learned kernels over three spatial dimensions.

    `out[i, j] = bias[j] + sum_k weight[j, k] * input[i, k]`, where `*` is cross-correlation and `k` runs over
    the channels of the group.

    Args:
        in_channels: Number of channels of the input. Divisible by `groups`.
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows, in elements. An integer stands for all three dimensions.
        padding: Elements to add at both ends of each spatial dimension. `"valid"` adds none. `"same"` keeps the
            size and needs `stride=1`.
        dilation: Distance between neighbouring elements of the kernel. An integer stands for all three
            dimensions.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        padding_mode: Values of the padding: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(out_channels, in_channels / groups, *kernel_size)`. Initial values are uniform in
            `[-b, b]` with `b = 1 / sqrt(in_channels / groups * prod(kernel_size))`.
        bias: Parameter `(out_channels,)` with initial values from the same range, or `None`.

    Shape:
        Input `(n, in_channels, d, h, w)` or without `n`; output `(n, out_channels, d_out, h_out, w_out)` or
            without `n`.
        `d_out = floor((d + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1`, and `h_out` and
            `w_out` likewise.

    Raises:
        ValueError: `groups` does not divide the channels, or a padding or a padding mode is unknown.
        RuntimeError: The shape of the input does not fit.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Conv3d(16, 33, 3, stride=2)
        >>> layer(torch.randn(2, 16, 10, 20, 20)).shape
        torch.Size([2, 33, 4, 9, 9])
    """

    _n = 3
    _convolution = staticmethod(_ops.conv3d)


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _size_any_t,
        stride: _size_any_t = 1,
        padding: _size_any_t = 0,
        output_padding: _size_any_t = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _size_any_t = 1,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        n = self._n
        super().__init__(
            in_channels,
            out_channels,
            _tuple(kernel_size, n),
            _tuple(stride, n),
            _tuple(padding, n),
            _tuple(dilation, n),
            True,
            _tuple(output_padding, n),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input, output_size):
        """Return the output padding that gives `output_size`."""
        n = self._n
        if output_size is None:
            return self.output_padding
        output_size = list(output_size)
        leading = 2 if input.dim() == n + 2 else 1
        if len(output_size) == leading + n:
            output_size = output_size[leading:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {leading + n} elements "
                f"(got {len(output_size)})"
            )
        smallest = [
            (input.size(d + leading) - 1) * self.stride[d]
            - 2 * self.padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(n)
        ]
        largest = [m + s - 1 for m, s in zip(smallest, self.stride)]
        if any(not lo <= size <= hi for lo, size, hi in zip(smallest, output_size, largest)):
            raise ValueError(
                f"requested an output size of {tuple(output_size)}, but valid sizes range from {smallest} to {largest} "
                f"(for an input of {input.size()[2:]})"
            )
        return [size - m for size, m in zip(output_size, smallest)]

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution of `input`. See the class for shapes.

        Args:
            input: Tensor to convolve.
            output_size: Spatial sizes of the output, with or without the leading dimensions. `None` takes
                `output_padding` from the module.

        Returns:
            The result, of the same dtype as `input`.

        Raises:
            ValueError: No output padding below `stride` gives `output_size`.
        """
        return self._convolution(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )


class _ConvTransposeMixin(_ConvTransposeNd):
    """Deprecated name of the base of transposed convolutions. mmengine names it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        import warnings

        warnings.warn(
            "`_ConvTransposeMixin` is a deprecated internal class. Please consider using public APIs.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class ConvTranspose1d(_ConvTransposeNd):
    """Apply the transpose of a convolution over one spatial dimension, with learned kernels.

    The result is the gradient of a `Conv1d` with the same settings for its input. It enlarges the spatial
    dimensions where `stride` is above 1.

    Args:
        in_channels: Number of channels of the input. Divisible by `groups`.
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements.
        stride: Distance between the windows of neighbouring inputs, in elements of the output.
        padding: Elements to remove at both ends of each spatial dimension of the output.
        output_padding: Elements to add at one end of each spatial dimension of the output. Smaller than
            `stride` or `dilation`.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        dilation: Distance between neighbouring elements of the kernel.
        padding_mode: Must be `"zeros"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(in_channels, out_channels / groups, kernel_size)`. Initial values are uniform in
            `[-b, b]` with `b = 1 / sqrt(out_channels / groups * prod(kernel_size))`.
        bias: Parameter `(out_channels,)` with initial values from the same range, or `None`.

    Shape:
        Input `(n, in_channels, l)` or without `n`; output `(n, out_channels, l_out)` or without `n`.
        `l_out = (l - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1`.

    Raises:
        ValueError: `groups` does not divide the channels, `padding_mode` is not `"zeros"`, or no output has the
            asked size.
        RuntimeError: The shape of the input does not fit.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.ConvTranspose1d(16, 33, 3, stride=2)
        >>> layer(torch.randn(20, 16, 50)).shape
        torch.Size([20, 33, 101])
    """

    _n = 1
    _convolution = staticmethod(_ops.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """Apply the transpose of a convolution over two spatial dimensions, with learned kernels.

    The result is the gradient of a `Conv2d` with the same settings for its input. It enlarges the spatial
    dimensions where `stride` is above 1.

    Args:
        in_channels: Number of channels of the input. Divisible by `groups`.
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements. An integer stands for both dimensions.
        stride: Distance between the windows of neighbouring inputs, in elements of the output. An integer
            stands for both dimensions.
        padding: Elements to remove at both ends of each spatial dimension of the output. An integer stands for
            both dimensions.
        output_padding: Elements to add at one end of each spatial dimension of the output. Smaller than
            `stride` or `dilation`.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        dilation: Distance between neighbouring elements of the kernel. An integer stands for both dimensions.
        padding_mode: Must be `"zeros"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(in_channels, out_channels / groups, *kernel_size)`. Initial values are uniform in
            `[-b, b]` with `b = 1 / sqrt(out_channels / groups * prod(kernel_size))`.
        bias: Parameter `(out_channels,)` with initial values from the same range, or `None`.

    Shape:
        Input `(n, in_channels, h, w)` or without `n`; output `(n, out_channels, h_out, w_out)` or without `n`.
        `h_out = (h - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1`, and
            `w_out` likewise.

    Raises:
        ValueError: `groups` does not divide the channels, `padding_mode` is not `"zeros"`, or no output has the
            asked size.
        RuntimeError: The shape of the input does not fit.

    Example:
        >>> import pytpu as torch
        >>> down = torch.nn.Conv2d(16, 16, 3, stride=2, padding=1)
        >>> up = torch.nn.ConvTranspose2d(16, 16, 3, stride=2, padding=1)
        >>> x = torch.randn(1, 16, 12, 12)
        >>> up(down(x), output_size=x.shape).shape
        torch.Size([1, 16, 12, 12])
    """

    _n = 2
    _convolution = staticmethod(_ops.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """Apply the transpose of a convolution over three spatial dimensions, with learned kernels.

    The result is the gradient of a `Conv3d` with the same settings for its input. It enlarges the spatial
    dimensions where `stride` is above 1.

    Args:
        in_channels: Number of channels of the input. Divisible by `groups`.
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements. An integer stands for all three dimensions.
        stride: Distance between the windows of neighbouring inputs, in elements of the output. An integer
            stands for all three dimensions.
        padding: Elements to remove at both ends of each spatial dimension of the output. An integer stands for
            all three dimensions.
        output_padding: Elements to add at one end of each spatial dimension of the output. Smaller than
            `stride` or `dilation`.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        dilation: Distance between neighbouring elements of the kernel. An integer stands for all three
            dimensions.
        padding_mode: Must be `"zeros"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(in_channels, out_channels / groups, *kernel_size)`. Initial values are uniform in
            `[-b, b]` with `b = 1 / sqrt(out_channels / groups * prod(kernel_size))`.
        bias: Parameter `(out_channels,)` with initial values from the same range, or `None`.

    Shape:
        Input `(n, in_channels, d, h, w)` or without `n`; output `(n, out_channels, d_out, h_out, w_out)` or
            without `n`.
        `d_out = (d - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1`, and
            `h_out` and `w_out` likewise.

    Raises:
        ValueError: `groups` does not divide the channels, `padding_mode` is not `"zeros"`, or no output has the
            asked size.
        RuntimeError: The shape of the input does not fit.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.ConvTranspose3d(16, 33, 3, stride=2)
        >>> layer(torch.randn(2, 16, 4, 9, 9)).shape
        torch.Size([2, 33, 9, 19, 19])
    """

    _n = 3
    _convolution = staticmethod(_ops.conv_transpose3d)


class _LazyConv(LazyModuleMixin):
    _n: int
    in_channels: int
    out_channels: int
    groups: int
    _weight_shape: Callable[[], tuple[int, ...]]

    def _make_uninitialized(self, out_channels, bias, device, dtype):
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new values, as the base layer does. Do nothing while the parameters have no shape."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give the parameters the shapes that fit `input`, and draw their values."""
        if not self.has_uninitialized_params():
            return
        n = self._n
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but "
                f"got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-n - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self.weight.materialize(self._weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConvForward(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: _size_any_t,
        stride: _size_any_t = 1,
        padding: str | _size_any_t = 0,
        dilation: _size_any_t = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # Build without channels and bias. `_make_uninitialized` replaces the parameters.
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._make_uninitialized(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConvForward, Conv1d):
    """Apply a `Conv1d` whose `in_channels` is the number of channels of the first input.

    The first call makes the parameters and turns the module into a `Conv1d`.

    Args:
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements.
        stride: Distance between neighbouring windows, in elements.
        padding: Elements to add at both ends of each spatial dimension. `"valid"` adds none. `"same"` keeps the
            size and needs `stride=1`.
        dilation: Distance between neighbouring elements of the kernel.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        padding_mode: Values of the padding: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Shape:
        Input `(n, in_channels, l)` or without `n`; output `(n, out_channels, l_out)` or without `n`. See
            `Conv1d` for the sizes.

    Raises:
        RuntimeError: The first input has another number of dimensions than 2 and 3.
        ValueError: `groups` does not divide the channels.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyConv1d(33, 3)
        >>> out = layer(torch.randn(20, 16, 50))
        >>> layer.in_channels
        16
        >>> type(layer).__name__
        'Conv1d'
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvForward, Conv2d):
    """Apply a `Conv2d` whose `in_channels` is the number of channels of the first input.

    The first call makes the parameters and turns the module into a `Conv2d`.

    Args:
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements. An integer stands for both dimensions.
        stride: Distance between neighbouring windows, in elements. An integer stands for both dimensions.
        padding: Elements to add at both ends of each spatial dimension. `"valid"` adds none. `"same"` keeps the
            size and needs `stride=1`.
        dilation: Distance between neighbouring elements of the kernel. An integer stands for both dimensions.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        padding_mode: Values of the padding: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Shape:
        Input `(n, in_channels, h, w)` or without `n`; output `(n, out_channels, h_out, w_out)` or without `n`.
            See `Conv2d` for the sizes.

    Raises:
        RuntimeError: The first input has another number of dimensions than 3 and 4.
        ValueError: `groups` does not divide the channels.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyConv2d(33, 3)
        >>> out = layer(torch.randn(20, 16, 50, 100))
        >>> layer.in_channels
        16
        >>> type(layer).__name__
        'Conv2d'
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvForward, Conv3d):
    """Apply a `Conv3d` whose `in_channels` is the number of channels of the first input.

    The first call makes the parameters and turns the module into a `Conv3d`.

    Args:
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements. An integer stands for all three dimensions.
        stride: Distance between neighbouring windows, in elements. An integer stands for all three dimensions.
        padding: Elements to add at both ends of each spatial dimension. `"valid"` adds none. `"same"` keeps the
            size and needs `stride=1`.
        dilation: Distance between neighbouring elements of the kernel. An integer stands for all three
            dimensions.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        padding_mode: Values of the padding: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Shape:
        Input `(n, in_channels, d, h, w)` or without `n`; output `(n, out_channels, d_out, h_out, w_out)` or
            without `n`. See `Conv3d` for the sizes.

    Raises:
        RuntimeError: The first input has another number of dimensions than 4 and 5.
        ValueError: `groups` does not divide the channels.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyConv3d(33, 3)
        >>> out = layer(torch.randn(2, 16, 10, 20, 20))
        >>> layer.in_channels
        16
        >>> type(layer).__name__
        'Conv3d'
    """

    cls_to_become = Conv3d


class _LazyConvTransposed(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: _size_any_t,
        stride: _size_any_t = 1,
        padding: _size_any_t = 0,
        output_padding: _size_any_t = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _size_any_t = 1,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._make_uninitialized(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTransposed, ConvTranspose1d):
    """Apply a `ConvTranspose1d` whose `in_channels` is the number of channels of the first input.

    The first call makes the parameters and turns the module into a `ConvTranspose1d`.

    Args:
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements.
        stride: Distance between the windows of neighbouring inputs, in elements of the output.
        padding: Elements to remove at both ends of each spatial dimension of the output.
        output_padding: Elements to add at one end of each spatial dimension of the output. Smaller than
            `stride` or `dilation`.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        dilation: Distance between neighbouring elements of the kernel.
        padding_mode: Must be `"zeros"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Shape:
        Input `(n, in_channels, l)` or without `n`; output `(n, out_channels, l_out)` or without `n`. See
            `ConvTranspose1d` for the sizes.

    Raises:
        RuntimeError: The first input has another number of dimensions than 2 and 3.
        ValueError: `groups` does not divide the channels.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyConvTranspose1d(33, 3)
        >>> out = layer(torch.randn(20, 16, 50))
        >>> layer.in_channels
        16
        >>> type(layer).__name__
        'ConvTranspose1d'
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTransposed, ConvTranspose2d):
    """Apply a `ConvTranspose2d` whose `in_channels` is the number of channels of the first input.

    The first call makes the parameters and turns the module into a `ConvTranspose2d`.

    Args:
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements. An integer stands for both dimensions.
        stride: Distance between the windows of neighbouring inputs, in elements of the output. An integer
            stands for both dimensions.
        padding: Elements to remove at both ends of each spatial dimension of the output. An integer stands for
            both dimensions.
        output_padding: Elements to add at one end of each spatial dimension of the output. Smaller than
            `stride` or `dilation`.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        dilation: Distance between neighbouring elements of the kernel. An integer stands for both dimensions.
        padding_mode: Must be `"zeros"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Shape:
        Input `(n, in_channels, h, w)` or without `n`; output `(n, out_channels, h_out, w_out)` or without `n`.
            See `ConvTranspose2d` for the sizes.

    Raises:
        RuntimeError: The first input has another number of dimensions than 3 and 4.
        ValueError: `groups` does not divide the channels.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyConvTranspose2d(33, 3)
        >>> out = layer(torch.randn(20, 16, 50, 100))
        >>> layer.in_channels
        16
        >>> type(layer).__name__
        'ConvTranspose2d'
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTransposed, ConvTranspose3d):
    """Apply a `ConvTranspose3d` whose `in_channels` is the number of channels of the first input.

    The first call makes the parameters and turns the module into a `ConvTranspose3d`.

    Args:
        out_channels: Number of channels of the output. Divisible by `groups`.
        kernel_size: Size of the kernel, in elements. An integer stands for all three dimensions.
        stride: Distance between the windows of neighbouring inputs, in elements of the output. An integer
            stands for all three dimensions.
        padding: Elements to remove at both ends of each spatial dimension of the output. An integer stands for
            all three dimensions.
        output_padding: Elements to add at one end of each spatial dimension of the output. Smaller than
            `stride` or `dilation`.
        groups: Number of groups of channels. Output channels see only the input channels of their group.
        bias: Whether to add a learned bias for each output channel.
        dilation: Distance between neighbouring elements of the kernel. An integer stands for all three
            dimensions.
        padding_mode: Must be `"zeros"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Shape:
        Input `(n, in_channels, d, h, w)` or without `n`; output `(n, out_channels, d_out, h_out, w_out)` or
            without `n`. See `ConvTranspose3d` for the sizes.

    Raises:
        RuntimeError: The first input has another number of dimensions than 4 and 5.
        ValueError: `groups` does not divide the channels.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyConvTranspose3d(33, 3)
        >>> out = layer(torch.randn(2, 16, 10, 20, 20))
        >>> layer.in_channels
        16
        >>> type(layer).__name__
        'ConvTranspose3d'
    """

    cls_to_become = ConvTranspose3d
