"""Comparison of results in tests, as `torch.testing`."""

import cmath as _cmath
import collections.abc as _abc
import math as _math
import numbers as _numbers
import warnings as _warnings

import pytpu as _torch

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_TOLERANCES = {
    _torch.float16: (1e-3, 1e-5),
    _torch.bfloat16: (1.6e-2, 1e-5),
    _torch.float32: (1.3e-6, 1e-5),
    _torch.float64: (1e-7, 1e-7),
    _torch.complex64: (1.3e-6, 1e-5),
    _torch.complex128: (1e-7, 1e-7),
}


def assert_close(
    actual,
    expected,
    *,
    allow_subclasses=True,
    rtol=None,
    atol=None,
    equal_nan=False,
    check_device=True,
    check_dtype=True,
    check_layout=True,
    check_stride=False,
    msg=None,
):
    """Raise `AssertionError` unless `|actual - expected| <= atol + rtol * |expected|` in every element.

    The arguments are tensors, numbers, arrays, or sequences and mappings of them. Without tolerances, those of the
    dtypes apply: none for integers, 1.3e-6 and 1e-5 for `float32`. `msg` is the error's text, or a function that
    makes it from the original text. `check_layout` has no effect: all tensors are strided.

    Raises:
        ValueError: if one tolerance is given without the other.
        TypeError: if something is neither of what can be compared.
    """
    if (rtol is None) != (atol is None):
        missing = "atol" if atol is None else "rtol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    check = _Check(rtol, atol, equal_nan, check_device, check_dtype, check_stride, allow_subclasses)
    try:
        check.any(actual, expected, ())
    except AssertionError as error:
        text = str(error)
        if msg is not None:
            text = msg(text) if callable(msg) else msg
        raise AssertionError(text) from None


class _Check:
    def __init__(self, rtol, atol, equal_nan, device, dtype, stride, subclasses):
        self.rtol, self.atol, self.equal_nan = rtol, atol, equal_nan
        self.device, self.dtype, self.stride, self.subclasses = device, dtype, stride, subclasses

    def any(self, actual, expected, place):
        """Compare two things. `place` has the keys and indices that lead to them."""
        if isinstance(actual, _abc.Mapping) and isinstance(expected, _abc.Mapping):
            if actual.keys() != expected.keys():
                missing = sorted(expected.keys() - actual.keys(), key=str)
                extra = sorted(actual.keys() - expected.keys(), key=str)
                _fail(
                    "The keys of the mappings do not match:\n"
                    f"Missing keys in the actual mapping: {missing}\nAdditional keys in the actual mapping: {extra}",
                    place,
                )
            for key in expected:
                self.any(actual[key], expected[key], (*place, key))
        elif _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                _fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place)
            for i, (a, e) in enumerate(zip(actual, expected)):
                self.any(a, e, (*place, i))
        elif actual is None or expected is None:
            if actual is not expected:
                _fail(f"None mismatch: {actual} is not {expected}", place)
        elif isinstance(actual, bool) and isinstance(expected, bool):
            if actual is not expected:
                _fail(f"Booleans mismatch: {actual} is not {expected}", place)
        elif isinstance(actual, _numbers.Number) and isinstance(expected, _numbers.Number):
            self.numbers(actual, expected, place)
        else:
            related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
            if not related or not self.subclasses and type(actual) is not type(expected):
                raise _not_comparable(actual, expected, place)
            try:
                tensors = [_torch.as_tensor(x) for x in (actual, expected)]
            except Exception:
                raise _not_comparable(actual, expected, place) from None
            self.tensors(*tensors, place)

    def tolerances(self, *dtypes):
        if self.rtol is not None:
            return self.rtol, self.atol
        pairs = [_TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes]
        return max(p[0] for p in pairs), max(p[1] for p in pairs)

    def numbers(self, actual, expected, place):
        if self.dtype and _kind(actual) is not _kind(expected):
            _fail(f"The (d)types do not match: {_kind(actual)} != {_kind(expected)}.", place)
        dtypes = {float: _torch.float64, complex: _torch.complex128}
        rtol, atol = self.tolerances(*(dtypes.get(_kind(v)) for v in (actual, expected)))
        nans = self.equal_nan and _cmath.isnan(actual) and _cmath.isnan(expected)
        if nans or actual == expected:
            return
        off = abs(actual - expected)
        if _cmath.isfinite(off) and off <= atol + rtol * abs(expected):
            return
        exact = rtol == 0 == atol
        relative = off / abs(expected) if expected else float("inf")
        lines = [f"Scalars are not {'equal' if exact else 'close'}!", "", f"Expected {expected} but got {actual}."]
        lines.append(f"Absolute difference: {off}" + ("" if exact else f" (up to {atol} allowed)"))
        lines.append(f"Relative difference: {relative}" + ("" if exact else f" (up to {rtol} allowed)"))
        _fail("\n".join(lines), place)

    def tensors(self, actual, expected, place):
        for is_checked, what in ((True, "shape"), (self.device, "device"), (self.dtype, "dtype")):
            a, e = getattr(actual, what), getattr(expected, what)
            if is_checked and a != e:
                _fail(f"The values for attribute '{what}' do not match: {a} != {e}.", place)
        if self.stride and actual.stride() != expected.stride():
            _fail(
                f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}.",
                place,
            )
        if actual.is_meta or expected.is_meta:
            return
        rtol, atol = self.tolerances(actual.dtype, expected.dtype)
        actual, expected = actual.detach().cpu(), expected.detach().cpu()
        if actual.dtype != expected.dtype:
            dtype = _torch.promote_types(actual.dtype, expected.dtype)
            actual, expected = actual.to(dtype), expected.to(dtype)
        close = _torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=self.equal_nan)
        if bool(close.all()):
            return
        _fail(_report(actual, expected, close, rtol, atol), place)


def _report(actual, expected, close, rtol, atol):
    """Describe the difference of two tensors, with the greatest differences among the elements that are not close."""
    exact = rtol == 0 == atol
    subject = "Scalars" if actual.ndim == 0 else "Tensor-likes"
    lines = [f"{subject} are not {'equal' if exact else 'close'}!", ""]
    if not (actual.is_floating_point() or actual.is_complex()):
        actual, expected = actual.to(_torch.int64), expected.to(_torch.int64)
    off = (actual - expected).abs()
    relative = off / expected.abs()
    if actual.ndim == 0:
        lines.append(f"Expected {expected.item()} but got {actual.item()}.")
        lines.append(f"Absolute difference: {off.item()}" + ("" if exact else f" (up to {atol} allowed)"))
        lines.append(f"Relative difference: {relative.item()}" + ("" if exact else f" (up to {rtol} allowed)"))
        return "\n".join(lines)
    wrong = int((~close).sum())
    lines.append(f"Mismatched elements: {wrong} / {close.numel()} ({wrong / close.numel():.1%})")
    for name, values, bound in (("absolute", off, atol), ("relative", relative, rtol)):
        values = values.masked_fill(close, 0)
        at = int(values.argmax())
        place, rest = [], at
        for n in reversed(values.shape):
            place.append(rest % n)
            rest //= n
        up_to = "" if exact else f" (up to {bound} allowed)"
        lines.append(
            f"Greatest {name} difference: {values.flatten()[at].item()} at index {tuple(reversed(place))}{up_to}"
        )
    return "\n".join(lines)


def _fail(text, place):
    """Raise an error about the things at `place`."""
    raise AssertionError(_with_place(text, place))


def _with_place(text, place):
    where = "".join(f"[{key!r}]" if isinstance(key, str) else f"[{key}]" for key in place)
    return f"{text}\n\nThe failure occurred for item {where}" if place else text


def _kind(x):
    """Return Python's type of a number. NumPy's numbers keep their own types."""
    kinds = ((bool, bool), (_numbers.Integral, int), (_numbers.Real, float), (_numbers.Number, complex))
    return next(kind for of, kind in kinds if isinstance(x, of))


def _is_sequence(x):
    return isinstance(x, _abc.Sequence) and not isinstance(x, str)


def _not_comparable(actual, expected, place):
    text = f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
    return TypeError(_with_place(text, place))


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """Assert as `assert_close` does, without a check of devices, dtypes and strides. This is the older function."""
    _warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
        "Please use `torch.testing.assert_close()` instead. You can find detailed upgrade instructions in "
        "https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
        stacklevel=2,
    )
    actual, expected = (x if isinstance(x, _torch.Tensor) else _torch.tensor(x) for x in (actual, expected))
    if rtol is None and atol is None:
        older = {_torch.float16: (1e-3, 1e-3), _torch.float32: (1e-4, 1e-5), _torch.float64: (1e-5, 1e-8)}
        both = [older.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = (max(pair) for pair in zip(*both))
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        msg=msg or None,
    )


def make_tensor(
    *shape,
    dtype,
    device,
    low=None,
    high=None,
    requires_grad=False,
    noncontiguous=False,
    exclude_zero=False,
    memory_format=None,
):
    """Return a tensor of random numbers, from `low` to below `high`.

    The default is from -9 to 9, 0 to 9 for bytes, and 0 to 1 for booleans.

    Limits that `dtype` does not have are narrowed. With `exclude_zero`, zeros become the smallest positive number,
    which is one for integers. With `noncontiguous`, the result is every other element of a larger tensor. Raise
    `ValueError` if `dtype` has no number between the limits.
    """
    if len(shape) == 1 and isinstance(shape[0], _abc.Sequence):
        shape = tuple(shape[0])
    is_real = dtype.is_floating_point
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    if requires_grad and not (is_real or dtype.is_complex):
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    low, high = _limits(dtype, low, high)
    noncontiguous = noncontiguous and _math.prod(shape) > 1
    if noncontiguous:
        shape = (*shape[:-1], 2 * shape[-1])
    if dtype.is_complex:
        parts = dtype.to_real()
        result = _torch.view_as_complex(
            _torch.empty(*shape, 2, device=device, dtype=parts).uniform_(low, high)
        ).detach()
    elif is_real:
        result = _torch.empty(shape, device=device, dtype=dtype)
        # An interval may be longer than the greatest number.
        half = high - low > _torch.finfo(dtype).max
        result = result.uniform_(low / 2, high / 2).mul_(2) if half else result.uniform_(low, high)
    else:
        result = _torch.randint(low, high, shape, device=device, dtype=dtype)
    if noncontiguous:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        least = _torch.finfo(dtype).tiny if is_real or dtype.is_complex else 1
        result[result == 0] = least
    return result.requires_grad_(requires_grad)


def _limits(dtype, low, high):
    """Return the limits of the numbers of `make_tensor`."""
    if dtype == _torch.bool:
        least, most, usual = 0, 2, (0, 2)
    elif dtype.is_floating_point or dtype.is_complex:
        least, most, usual = _torch.finfo(dtype).min, _torch.finfo(dtype).max, (-9, 9)
    else:
        info = _torch.iinfo(dtype)
        # `randint` cannot draw the greatest int64.
        least, most, usual = info.min, info.max + (dtype != _torch.int64), (-9, 10)
    low, high = (given if given is not None else default for given, default in zip((low, high), usual))
    if any(isinstance(x, float) and x != x for x in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    is_continuous = dtype.is_floating_point or dtype.is_complex
    if low > high or low == high and not is_continuous:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if low >= most or high < least:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {most})"
        )
    low, high = max(low, least), min(high, most)
    if not is_continuous:
        return _math.ceil(low), _math.ceil(high)
    if low == high:
        _warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 "
            "and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    return low, high
