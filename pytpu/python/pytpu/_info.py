"""``torch.finfo`` and ``torch.iinfo``."""

from . import _C

_FLOAT = {
    # bits, digits of the significand, smallest and largest exponent, decimal digits
    "float16": (16, 11, -14, 15, 3),
    "bfloat16": (16, 8, -126, 127, 2),
    "float32": (32, 24, -126, 127, 6),
    "float64": (64, 53, -1022, 1023, 15),
}


def _name(dtype):
    return repr(dtype).removeprefix("torch.")


class finfo:
    """Limits of a floating-point dtype."""

    __module__ = "torch"

    def __init__(self, type=None):
        self._dtype = _C.get_default_dtype() if type is None else type
        if not isinstance(self._dtype, _C.dtype) or not (self._dtype.is_floating_point or self._dtype.is_complex):
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{_shown(type)}'")
        self.dtype = _name(self._dtype.to_real())
        self.bits, digits, low, high, decimal = _FLOAT[self.dtype]
        self.eps = 2.0 ** (1 - digits)
        self.tiny = self.smallest_normal = 2.0**low
        self.max = (2.0 - 2.0 ** (1 - digits)) * 2.0**high
        self.min = -self.max
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

    def __init__(self, type):
        if not isinstance(type, _C.dtype) or type.is_floating_point or type.is_complex or type is _C.bool:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{_shown(type)}'")
        self.dtype = _name(type)
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


def _shown(type):
    return repr(type)
