"""`torch.Size`."""

from . import _C, _as_torch


class Size(tuple):
    """The sizes of a tensor: a tuple of ints."""

    __slots__ = ()
    __module__ = "torch"

    def __new__(cls, sizes=()):
        sizes = tuple(sizes)
        for i, n in enumerate(sizes):
            if not hasattr(n, "__index__"):
                raise TypeError(f"torch.Size() takes an iterable of 'int' (item {i} is '{type(n).__name__}')")
        return tuple.__new__(cls, (n.__index__() for n in sizes))

    def numel(self):
        """Product of the sizes."""
        n = 1
        for s in self:
            n *= s
        return n

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    def __getitem__(self, i):
        r = tuple.__getitem__(self, i)
        return tuple.__new__(Size, r) if isinstance(i, slice) else r

    def __add__(self, other):
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(self, other))

    def __radd__(self, other):
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(other, self))

    def __mul__(self, n):
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    def __reduce__(self):
        # Pickles name the class if this package is `torch`, otherwise a function of this module.
        return Size if _as_torch.is_torch else _size, (tuple(self),)


def _size(sizes):
    """Make a size."""
    return Size(sizes)


_C._set_size_type(Size)
