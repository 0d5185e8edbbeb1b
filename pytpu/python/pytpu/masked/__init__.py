"""`torch.masked`: reductions and normalizations that leave out the elements where a mask is false.

A mask is broadcast to its tensor. Masked-out elements are replaced by the neutral value (zero for a sum, minus infinity
for a maximum) before the plain op runs, so their gradients are zero. A row without elements gives the neutral value, or
NaN if there is none, as for a mean.
"""

from .. import _C
from .._info import iinfo as _iinfo

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

_inf = float("inf")


def _dims(dim, ndim):
    """Return the dimensions in ascending order. `None` or an empty list means all."""
    n = max(ndim, 1)
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(ndim))
    found = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -n <= d < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
        d %= n
        if d in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        found.append(d)
    return sorted(found)


def _full_mask(input, mask):
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    # A copy, as in PyTorch: backward reads the mask, and the caller may write it.
    return mask.to(_C.bool, copy=True).broadcast_to(input.shape)


def _replace(input, mask, value):
    """Return `input` with `value` where the mask is false."""
    if mask is None:
        return input
    return _C._ops.where(_full_mask(input, mask), input, _C.tensor(value, dtype=input.dtype, device=input.device))


def _least(dtype):
    if dtype.is_floating_point or dtype.is_complex:
        return -_inf
    return False if dtype == _C.bool else _iinfo(dtype).min


def _greatest(dtype):
    if dtype.is_floating_point:
        return _inf
    return True if dtype == _C.bool else _iinfo(dtype).max


def _summed_dtype(dtype):
    return dtype if dtype.is_floating_point or dtype.is_complex else _C.int64


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Return the sum of the unmasked elements."""
    dtype = dtype or _summed_dtype(input.dtype)
    return _C._ops.sum(_replace(input, mask, 0), _dims(dim, input.ndim), bool(keepdim), dtype=dtype)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Return the product of the unmasked elements."""
    y = _replace(input, mask, 1).to(dtype or _summed_dtype(input.dtype))
    for d in reversed(_dims(dim, input.ndim)):
        y = y.prod(d, bool(keepdim))
    return y


def cumsum(input, dim, *, dtype=None, mask=None):
    """Return running sums of the unmasked elements."""
    dtype = dtype or input.dtype
    return _replace(input, mask, 0).cumsum(_dims(dim, input.ndim)[0], dtype=dtype).to(dtype)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Return running products of the unmasked elements."""
    dtype = dtype or input.dtype
    return _replace(input, mask, 1).cumprod(_dims(dim, input.ndim)[0], dtype=dtype).to(dtype)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Return the greatest of the unmasked elements."""
    y = _replace(input, mask, _least(input.dtype)).amax(_dims(dim, input.ndim), bool(keepdim))
    return y.to(dtype or input.dtype)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Return the least of the unmasked elements."""
    y = _replace(input, mask, _greatest(input.dtype)).amin(_dims(dim, input.ndim), bool(keepdim))
    return y.to(dtype or input.dtype)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Return the index of the greatest unmasked element, in the dtype of `input` unless `dtype` is given."""
    return _replace(input, mask, _least(input.dtype)).argmax(dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Return the index of the least unmasked element, in the dtype of `input` unless `dtype` is given."""
    return _replace(input, mask, _greatest(input.dtype)).argmin(dim, bool(keepdim)).to(dtype or input.dtype)


def _count(input, dim, keepdim, mask):
    ones = _C._ops.ones_like(input, dtype=_C.int64) if mask is None else _full_mask(input, mask)
    return ones.sum(_dims(dim, input.ndim), bool(keepdim))


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Return the mean of the unmasked elements, or NaN without any."""
    source = "Input" if dtype is None else "Optional"
    dtype = dtype or input.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {dtype}"
        )
    return sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask) / _count(input, dim, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """Return the lower median of the unmasked elements, or NaN without any, which integers refuse."""
    x = input if input.is_floating_point() else input.to(_C.float32)
    y = _replace(x, mask, float("nan")).nanmedian(_dims(dim, input.ndim)[0], keepdim).values
    if input.is_floating_point():
        return y
    if bool(y.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return y.to(dtype or input.dtype)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Return the logarithm of the sum of exponentials of the unmasked elements."""
    y = _replace(input, mask, _least(input.dtype)).logsumexp(_dims(dim, input.ndim), keepdim)
    return y.to(dtype or input.dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """Return `logaddexp` of two tensors. A masked-out element adds nothing."""
    x, y = _replace(input, input_mask, _least(input.dtype)), _replace(other, other_mask, _least(other.dtype))
    return _C._ops.logaddexp(x, y).to(dtype or input.dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Return the `ord`-norm of the unmasked elements."""
    x = _replace(input, mask, _inf if ord == -_inf else 0)
    return _C._ops.linalg_vector_norm(x, ord, _dims(dim, input.ndim), bool(keepdim), dtype=dtype or input.dtype)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Return the variance of the unmasked elements."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    dtype = dtype or input.dtype
    wide = dtype if dtype.is_floating_point or dtype.is_complex else _C.float32
    if not (input.is_floating_point() or input.is_complex()) and dtype == input.dtype:
        dtype = wide
    count = _count(input, dim, True, mask)
    x = input - sum(input, dim, keepdim=True, dtype=dtype, mask=mask) / count
    total = sum(x * x.conj(), dim, keepdim=keepdim, dtype=wide, mask=mask)
    if not keepdim:
        count = count.reshape(total.shape)
    if correction:
        count = (count.to(wide.to_real()) - correction).clamp(min=0)
    return (total / count).to(dtype)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Return the standard deviation of the unmasked elements."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def softmax(input, dim, *, dtype=None, mask=None):
    """Return the softmax over the unmasked elements, with zeros elsewhere."""
    return _replace(input, mask, _least(input.dtype)).softmax(_dims(dim, input.ndim)[0], dtype=dtype or input.dtype)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """Return the logarithm of the softmax over the unmasked elements, with minus infinity elsewhere."""
    return _replace(input, mask, _least(input.dtype)).log_softmax(_dims(dim, input.ndim)[0], dtype=dtype or input.dtype)


def softmin(input, dim, *, dtype=None, mask=None):
    """Return the softmax of the negated input over the unmasked elements, with zeros elsewhere."""
    x = _replace(input, mask, _greatest(input.dtype))
    return (-x).softmax(_dims(dim, input.ndim)[0], dtype=dtype or input.dtype)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """Return the unmasked elements divided by their norm, or by `eps` if that is greater, with zeros elsewhere."""
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _replace(input, mask, 0) / size.clamp(min=eps)
