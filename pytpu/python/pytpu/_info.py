"""`torch.finfo` and `torch.iinfo`."""

from __future__ import annotations

from . import _C

_FLOAT = {
    # bits, digits of the significand, exponent of the smallest normal number, largest number, decimal digits
    "float16": (16, 11, -14, 65504.0, 3),
    "bfloat16": (16, 8, -126, (2.0 - 2.0**-7) * 2.0**127, 2),
    "float32": (32, 24, -126, (2.0 - 2.0**-23) * 2.0**127, 6),
    "float64": (64, 53, -1022, (2.0 - 2.0**-52) * 2.0**1023, 15),
    "float8_e4m3fn": (8, 4, -6, 448.0, 0),
    "float8_e4m3fnuz": (8, 4, -7, 240.0, 0),
    "float8_e5m2": (8, 3, -14, 57344.0, 0),
    "float8_e5m2fnuz": (8, 3, -15, 57344.0, 0),
    "float8_e8m0fnu": (8, 1, -127, 2.0**127, 0),
}


def _name(dtype):
    return repr(dtype).removeprefix("torch.")


class finfo:
    """Limits of a floating-point dtype."""

    __module__ = "torch"

    bits: int
    min: float
    max: float
    eps: float
    tiny: float
    smallest_normal: float
    resolution: float
    dtype: str

    def __init__(self, type: _C.dtype | None = None) -> None:
        self._dtype = _C.get_default_dtype() if type is None else type
        if not isinstance(self._dtype, _C.dtype) or not (self._dtype.is_floating_point or self._dtype.is_complex):
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{_show(type)}'"
            )
        self.dtype = _name(self._dtype.to_real())
        if self.dtype not in _FLOAT:
            raise NotImplementedError(f"\"min\" not implemented for '{self._dtype._scalar_type}'")
        self.bits, digits, low, self.max, decimal = _FLOAT[self.dtype]
        self.eps = 2.0 ** (1 - digits)
        self.tiny = self.smallest_normal = 2.0**low
        self.min = -self.max if self._dtype.is_signed else self.tiny
        self.resolution = 10.0**-decimal

    def __repr__(self):
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


class iinfo:
    """Limits of an integer dtype."""

    __module__ = "torch"

    bits: int
    min: int
    max: int
    dtype: str

    def __init__(self, type: _C.dtype) -> None:
        if not isinstance(type, _C.dtype) or type.is_floating_point or type.is_complex or type is _C.bool:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{_show(type)}'")
        self.dtype = _name(type)
        if self.dtype.startswith("q"):
            raise NotImplementedError(f"\"dtype\" not implemented for '{type._scalar_type}'")
        if self.dtype[-1] in "1234567" and type.itemsize == 1:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{_show(type)}'")
        self.bits = 8 * type.itemsize
        signed = type.is_signed
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0

    def __repr__(self):
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


def _show(type):
    return repr(type)
