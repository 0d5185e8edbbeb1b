"""`torch.signal.windows`: weights for the samples of a signal, by SciPy's definitions.

With `sym` a window is symmetric, for filters. Otherwise it is periodic: the first `M` of `M + 1` samples.
"""

from __future__ import annotations

from collections.abc import Iterable as _Iterable
from math import pi as _pi

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytpu import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _make(name, M, dtype, layout, device, requires_grad, f):
    """Check the arguments that all windows have, and return the tensor of `f` at the positions 0, 1, ..."""
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and layout != _C.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    # In double precision throughout: rounding once costs nothing at these sizes.
    k = _C._ops.arange(M, dtype=_C.float64)
    y = f(k) if M > 0 else k
    y = y.to(dtype=dtype, device=device or _C.get_default_device())
    return y.requires_grad_() if requires_grad else y


def _last(M, sym):
    """Return the distance of the first and the last sample of the symmetric window that this one is a part of."""
    return M - 1 if sym or M <= 1 else M


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-|k - center| / tau)`."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = _last(M, sym) / 2 if center is None else center
    return _make("exponential", M, dtype, layout, device, requires_grad, lambda k: (-(k - middle).abs() / tau).exp())


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a period of a sine."""
    step = _pi / (M if sym or M <= 1 else M + 1) if M else 0
    return _make("cosine", M, dtype, layout, device, requires_grad, lambda k: ((k + 0.5) * step).sin())


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The bell curve with a standard deviation."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = _last(M, sym) / 2
    return _make("gaussian", M, dtype, layout, device, requires_grad, lambda k: (((k - middle) / std) ** 2 / -2).exp())


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`i0(beta sqrt(1 - x^2)) / i0(beta)` for `x` from -1 to 1."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def weights(k):
        x = k * (2 / max(_last(M, sym), 1)) - 1 if M > 1 else k
        top = _C.tensor(float(beta), dtype=_C.float64)
        return _C._ops.special_i0(top * (1 - x * x).clamp(min=0).sqrt()) / _C._ops.special_i0(top)

    return _make("kaiser", M, dtype, layout, device, requires_grad, weights)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines of whole multiples of one frequency, with weights `a` and alternating signs."""
    return _cosines("general_cosine", M, a, sym, dtype, layout, device, requires_grad)


def _cosines(name, M, a, sym, dtype, layout, device, requires_grad):
    if not isinstance(a, _Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    a = list(a)
    if not a:
        raise ValueError("Coefficients cannot be empty")

    def weights(k):
        if M == 1:
            return k + 1
        angle = k * (2 * _pi / _last(M, sym))
        return sum((-1) ** i * w * (angle * i).cos() for i, w in enumerate(a))

    return _make(name, M, dtype, layout, device, requires_grad, weights)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`alpha - (1 - alpha) cos`."""
    return _cosines("general_hamming", M, [alpha, 1 - alpha], sym, dtype, layout, device, requires_grad)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Hamming's window."""
    return _cosines("hamming", M, [0.54, 0.46], sym, dtype, layout, device, requires_grad)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Hann window."""
    return _cosines("hann", M, [0.5, 0.5], sym, dtype, layout, device, requires_grad)


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Blackman's window."""
    return _cosines("blackman", M, [0.42, 0.5, 0.08], sym, dtype, layout, device, requires_grad)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The minimal four-term Blackman-Harris window by Nuttall."""
    return _cosines(
        "nuttall", M, [0.3635819, 0.4891775, 0.1365995, 0.0106411], sym, dtype, layout, device, requires_grad
    )


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle."""

    def weights(k):
        return k + 1 if M == 1 else 1 - (k * (2 / _last(M, sym)) - 1).abs()

    return _make("bartlett", M, dtype, layout, device, requires_grad, weights)
