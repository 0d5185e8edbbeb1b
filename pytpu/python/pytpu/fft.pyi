"""Types of `torch.fft`."""

from builtins import bool as _bool, float as _float, int as _int, str as _str
from collections.abc import Sequence

from pytpu._C import (
    Tensor,
    device as _device,
    dtype as _dtype,
    layout as _layout,
)

# From the op table, by `make generated`.
def fft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def fft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fftfreq(
    n: _int,
    d: _float = 1.0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def fftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fftshift(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor: ...
def hfft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def hfft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def hfftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def ifft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ifftshift(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor: ...
def ihfft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def ihfft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def ihfftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def irfft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def irfft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def irfftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def rfft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def rfft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def rfftfreq(
    n: _int,
    d: _float = 1.0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def rfftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...

# End of what is from the op table.
