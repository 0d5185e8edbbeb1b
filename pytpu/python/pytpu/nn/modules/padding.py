"""Padding layers."""

from __future__ import annotations

from pytpu import Tensor
from pytpu.nn import functional as F

from .module import Module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pytpu.nn.common_types import _size_any_t


def _pairs(padding, n):
    return (padding,) * (2 * n) if isinstance(padding, int) else tuple(padding)


class _Pad(Module):
    _n = 0
    _mode = "constant"

    def __init__(self, padding: _size_any_t) -> None:
        super().__init__()
        self.padding = _pairs(padding, self._n)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded `input`."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: _size_any_t, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded `input`."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: _size_any_t) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"{self.padding}"


class _CircularPad(_Pad):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded `input`."""
        n = self._n
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class _ReflectionPad(_Pad):
    _mode = "reflect"


class _ReplicationPad(_Pad):
    _mode = "replicate"


class ConstantPad1d(_ConstantPad):
    """Surround the input with one value.

    Args:
        padding: Elements to add, `(left, right)`. An integer stands for all sides. Negative numbers remove
            elements.
        value: Value of the padding.

    Shape:
        Input `(n, c, l)` or `(c, l)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ConstantPad1d(1, 9.0)(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[9., 1., 2., 3., 9.]]])
    """

    _n = 1


class ConstantPad2d(_ConstantPad):
    """Surround the input with one value.

    Args:
        padding: Elements to add, `(left, right, top, bottom)`. An integer stands for all sides. Negative
            numbers remove elements.
        value: Value of the padding.

    Shape:
        Input `(n, c, h, w)` or `(c, h, w)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ConstantPad2d(1, 9.0)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 10, 10])
    """

    _n = 2


class ConstantPad3d(_ConstantPad):
    """Surround the input with one value.

    Args:
        padding: Elements to add, `(left, right, top, bottom, front, back)`. An integer stands for all sides.
            Negative numbers remove elements.
        value: Value of the padding.

    Shape:
        Input `(n, c, d, h, w)` or `(c, d, h, w)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ConstantPad3d(1, 9.0)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 10, 10, 10])
    """

    _n = 3


class ZeroPad1d(_ZeroPad):
    """Surround the input with zeros.

    Args:
        padding: Elements to add, `(left, right)`. An integer stands for all sides. Negative numbers remove
            elements.

    Shape:
        Input `(n, c, l)` or `(c, l)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ZeroPad1d(1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[0., 1., 2., 3., 0.]]])
    """

    _n = 1


class ZeroPad2d(_ZeroPad):
    """Surround the input with zeros.

    Args:
        padding: Elements to add, `(left, right, top, bottom)`. An integer stands for all sides. Negative
            numbers remove elements.

    Shape:
        Input `(n, c, h, w)` or `(c, h, w)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ZeroPad2d(1)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 10, 10])
    """

    _n = 2


class ZeroPad3d(_ZeroPad):
    """Surround the input with zeros.

    Args:
        padding: Elements to add, `(left, right, top, bottom, front, back)`. An integer stands for all sides.
            Negative numbers remove elements.

    Shape:
        Input `(n, c, d, h, w)` or `(c, d, h, w)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ZeroPad3d(1)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 10, 10, 10])
    """

    _n = 3


class CircularPad1d(_CircularPad):
    """Surround the input with the values of its opposite ends.

    Args:
        padding: Elements to add, `(left, right)`. An integer stands for all sides. Negative numbers remove
            elements. At most the size of the dimension.

    Shape:
        Input `(n, c, l)` or `(c, l)`; output of the same dimensions, larger by the padding.

    Raises:
        ValueError: The input has other than 2 or 3 dimensions.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.CircularPad1d(1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[3., 1., 2., 3., 1.]]])
    """

    _n = 1


class CircularPad2d(_CircularPad):
    """Surround the input with the values of its opposite ends.

    Args:
        padding: Elements to add, `(left, right, top, bottom)`. An integer stands for all sides. Negative
            numbers remove elements. At most the size of the dimension.

    Shape:
        Input `(n, c, h, w)` or `(c, h, w)`; output of the same dimensions, larger by the padding.

    Raises:
        ValueError: The input has other than 3 or 4 dimensions.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.CircularPad2d(1)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 10, 10])
    """

    _n = 2


class CircularPad3d(_CircularPad):
    """Surround the input with the values of its opposite ends.

    Args:
        padding: Elements to add, `(left, right, top, bottom, front, back)`. An integer stands for all sides.
            Negative numbers remove elements. At most the size of the dimension.

    Shape:
        Input `(n, c, d, h, w)` or `(c, d, h, w)`; output of the same dimensions, larger by the padding.

    Raises:
        ValueError: The input has other than 4 or 5 dimensions.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.CircularPad3d(1)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 10, 10, 10])
    """

    _n = 3


class ReflectionPad1d(_ReflectionPad):
    """Surround the input with its mirror images, without the border itself.

    Args:
        padding: Elements to add, `(left, right)`. An integer stands for all sides. Negative numbers remove
            elements. Smaller than the size of the dimension.

    Shape:
        Input `(n, c, l)` or `(c, l)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ReflectionPad1d(1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[2., 1., 2., 3., 2.]]])
    """

    _n = 1


class ReflectionPad2d(_ReflectionPad):
    """Surround the input with its mirror images, without the border itself.

    Args:
        padding: Elements to add, `(left, right, top, bottom)`. An integer stands for all sides. Negative
            numbers remove elements. Smaller than the size of the dimension.

    Shape:
        Input `(n, c, h, w)` or `(c, h, w)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ReflectionPad2d(1)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 10, 10])
    """

    _n = 2


class ReflectionPad3d(_ReflectionPad):
    """Surround the input with its mirror images, without the border itself.

    Args:
        padding: Elements to add, `(left, right, top, bottom, front, back)`. An integer stands for all sides.
            Negative numbers remove elements. Smaller than the size of the dimension.

    Shape:
        Input `(n, c, d, h, w)` or `(c, d, h, w)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ReflectionPad3d(1)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 10, 10, 10])
    """

    _n = 3


class ReplicationPad1d(_ReplicationPad):
    """Surround the input with the values at its border.

    Args:
        padding: Elements to add, `(left, right)`. An integer stands for all sides. Negative numbers remove
            elements.

    Shape:
        Input `(n, c, l)` or `(c, l)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ReplicationPad1d(1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[1., 1., 2., 3., 3.]]])
    """

    _n = 1


class ReplicationPad2d(_ReplicationPad):
    """Surround the input with the values at its border.

    Args:
        padding: Elements to add, `(left, right, top, bottom)`. An integer stands for all sides. Negative
            numbers remove elements.

    Shape:
        Input `(n, c, h, w)` or `(c, h, w)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ReplicationPad2d(1)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 10, 10])
    """

    _n = 2


class ReplicationPad3d(_ReplicationPad):
    """Surround the input with the values at its border.

    Args:
        padding: Elements to add, `(left, right, top, bottom, front, back)`. An integer stands for all sides.
            Negative numbers remove elements.

    Shape:
        Input `(n, c, d, h, w)` or `(c, d, h, w)`; output of the same dimensions, larger by the padding.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ReplicationPad3d(1)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 10, 10, 10])
    """

    _n = 3
