"""Padding layers."""

from pytpu.nn import functional as F

from .module import Module


def _pairs(padding, n):
    return (padding,) * (2 * n) if isinstance(padding, int) else tuple(padding)


class _Pad(Module):
    _n = 0
    _mode = "constant"

    def __init__(self, padding):
        super().__init__()
        self.padding = _pairs(padding, self._n)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class _CircularPad(_Pad):
    _mode = "circular"

    def forward(self, input):
        n = self._n
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class _ReflectionPad(_Pad):
    _mode = "reflect"


class _ReplicationPad(_Pad):
    _mode = "replicate"


class ConstantPad1d(_ConstantPad):
    """Pads with one value."""

    _n = 1


class ConstantPad2d(_ConstantPad):
    """Pads with one value."""

    _n = 2


class ConstantPad3d(_ConstantPad):
    """Pads with one value."""

    _n = 3


class ZeroPad1d(_ZeroPad):
    """Pads with zeros."""

    _n = 1


class ZeroPad2d(_ZeroPad):
    """Pads with zeros."""

    _n = 2


class ZeroPad3d(_ZeroPad):
    """Pads with zeros."""

    _n = 3


class CircularPad1d(_CircularPad):
    """Pads with the values of the other end."""

    _n = 1


class CircularPad2d(_CircularPad):
    """Pads with the values of the other end."""

    _n = 2


class CircularPad3d(_CircularPad):
    """Pads with the values of the other end."""

    _n = 3


class ReflectionPad1d(_ReflectionPad):
    """Pads with the mirrored values."""

    _n = 1


class ReflectionPad2d(_ReflectionPad):
    """Pads with the mirrored values."""

    _n = 2


class ReflectionPad3d(_ReflectionPad):
    """Pads with the mirrored values."""

    _n = 3


class ReplicationPad1d(_ReplicationPad):
    """Pads with the values at the border."""

    _n = 1


class ReplicationPad2d(_ReplicationPad):
    """Pads with the values at the border."""

    _n = 2


class ReplicationPad3d(_ReplicationPad):
    """Pads with the values at the border."""

    _n = 3
