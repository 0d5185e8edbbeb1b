"""`torch.quasirandom`: Sobol' sequences, which fill a cube more evenly than random numbers do.

The direction numbers in `_sobol.bin` are those of S. Joe and F. Y. Kuo (new-joe-kuo-6.21201), and `_sobol.license` has
their terms. A scrambled sequence has the numbers of PyTorch for the same seed.
"""

from __future__ import annotations

import functools
import os
import zlib

from . import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor


_BITS = 30
_DIMENSIONS = 21201


@functools.cache
def _file():
    with open(os.path.join(os.path.dirname(__file__), "_sobol.bin"), "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:4], "little")
    return zlib.decompress(data[4 : 4 + size]), data[4 + size :]


def _directions(dimension):
    """Return the direction numbers of the first dimensions, as a list of lists of 30 integers of 30 bits.

    The file has the differences between the polynomials, two bytes each, and then for a polynomial of degree s the
    numbers m_1 to m_s. m_k is odd and has k bits, of which k - 1 are stored.
    """
    steps, packed = _file()
    rows, polynomial, at = [], 0, 0
    for d in range(dimension):
        polynomial += int.from_bytes(steps[2 * d : 2 * d + 2], "little")
        degree = polynomial.bit_length() - 1
        count = degree * (degree - 1) // 2
        word = int.from_bytes(packed[at // 8 : (at + count + 7) // 8], "little") >> at % 8
        at += count
        row = []
        for k in range(max(degree, 1)):
            row.append(((word & ((1 << k) - 1)) << 1 | 1) << (_BITS - 1 - k))
            word >>= k
        if degree == 0:
            # The first dimension counts in binary.
            row = [1 << (_BITS - 1 - k) for k in range(_BITS)]
        for k in range(len(row), _BITS):
            value = row[k - degree] ^ (row[k - degree] >> degree)
            for j in range(1, degree):
                if polynomial >> (degree - j) & 1:
                    value ^= row[k - j]
            row.append(value)
        rows.append(row)
    return rows


class SobolEngine:
    """Draw points of a Sobol' sequence in the unit cube.

    Args:
        dimension: Dimension of the cube, at most 21201.
        scramble: If `True`, scramble the sequence by random matrices and a digital shift.
        seed: Seed of the scrambling. `None` uses the default generator.

    Raises:
        ValueError: If `dimension` is out of its range.

    Example:
        >>> import pytpu as torch
        >>> engine = torch.quasirandom.SobolEngine(dimension=2)
        >>> engine.draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = _BITS
    MAXDIM = _DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = _C.tensor(_directions(dimension), dtype=_C.int64, device="cpu")
        self.shift = _C._ops.zeros([dimension], dtype=_C.int64, device="cpu")
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi.to(_C.get_default_dtype()) / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self):
        generator = None
        if self.seed is not None:
            generator = _C.Generator("cpu")
            generator.manual_seed(self.seed)
        ops = _C._ops
        bits = ops.randint(2, [self.dimension, self.MAXBIT], generator=generator, dtype=_C.int64, device="cpu")
        self.shift = (bits << ops.arange(self.MAXBIT, dtype=_C.int64, device="cpu")).sum(1)
        matrices = ops.randint(
            2, [self.dimension, self.MAXBIT, self.MAXBIT], generator=generator, dtype=_C.int64, device="cpu"
        ).tril()
        matrices.diagonal(0, -2, -1).fill_(1)
        # A row of a matrix is one number. The parity of the product of row p and a direction is bit p of the new
        # direction, from the top.
        places = ops.arange(self.MAXBIT - 1, -1, -1, dtype=_C.int64, device="cpu")
        rows = (matrices << places).sum(-1)
        scrambled = ops.zeros_like(self.sobolstate)
        for p in range(self.MAXBIT):
            common = self.sobolstate & rows[:, p : p + 1]
            for half in (16, 8, 4, 2, 1):
                common = common ^ (common >> half)
            scrambled |= (common & 1) << (self.MAXBIT - 1 - p)
        self.sobolstate = scrambled

    def _points(self, start, count):
        """Return the points from one index on, as integers of 30 bits, shape `(count, dimension)`."""
        index = _C._ops.arange(start, start + count, dtype=_C.int64, device="cpu")
        gray = index ^ (index >> 1)
        points = self.shift.expand(count, self.dimension).clone()
        for b in range((start + count).bit_length()):
            points ^= (gray >> b & 1).unsqueeze(1) * self.sobolstate[:, b]
        return points

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: _C.dtype | None = None) -> Tensor:
        """Draw the next points.

        Args:
            n: Number of points.
            out: Tensor to write the result to.
            dtype: Dtype of the result. `None` is the default dtype.

        Returns:
            A tensor of shape `(n, dimension)` on the CPU, with numbers in `[0, 1)`.

        Raises:
            ValueError: If `n` is negative, or 0 at the first point.
        """
        steps = n - 1 if self.num_generated == 0 else n
        if steps < 0:
            raise ValueError(f"n must be non-negative, but got {steps}")
        dtype = _C.get_default_dtype() if dtype is None else dtype
        points = self._points(self.num_generated, n)
        if n:
            self.quasi = points[-1].clone()
        self.num_generated += n
        result = points.to(dtype) * 2.0**-self.MAXBIT
        if out is not None:
            out.resize_as_(result).copy_(result)
            return out
        return result

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: _C.dtype | None = None) -> Tensor:
        """Draw `2 ** m` points, so that the number of all points is a power of two. A balanced sequence needs that.

        Args:
            m: Logarithm of the number of points.
            out: Tensor to write the result to.
            dtype: Dtype of the result. `None` is the default dtype.

        Raises:
            ValueError: If the number of all points would not be a power of two.

        Example:
            >>> import pytpu as torch
            >>> torch.quasirandom.SobolEngine(dimension=1).draw_base2(2)
            tensor([[0.0000],
                    [0.5000],
                    [0.7500],
                    [0.2500]])
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still "
                "want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point, and return the engine."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip points, and return the engine.

        Args:
            n: Number of points.

        Example:
            >>> import pytpu as torch
            >>> torch.quasirandom.SobolEngine(dimension=1).fast_forward(2).draw()
            tensor([[0.7500]])
        """
        self.num_generated += n
        self.quasi = self._points(self.num_generated - 1, 1)[0] if self.num_generated else self.shift.clone()
        return self

    def __repr__(self) -> str:
        options = [f"dimension={self.dimension}"]
        if self.scramble:
            options.append("scramble=True")
        if self.seed is not None:
            options.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(options)})"
