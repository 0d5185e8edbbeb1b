"""Indexing by aten operators, for modes and classes with `__torch_dispatch__`: `x[key]` and `x[key] = value`."""

from __future__ import annotations

import typing

from . import _C

_MAX = 9223372036854775807


def _is_index(key: object) -> bool:
    return isinstance(key, (_C.Tensor, list, range)) or hasattr(key, "__array__")


def _as_index(key: typing.Any, x: _C.Tensor) -> _C.Tensor:
    index = key if isinstance(key, _C.Tensor) else _make([*key] if isinstance(key, range) else key)
    return index


def _keys(x: _C.Tensor, key: typing.Any) -> list[typing.Any]:
    """Return one key for each dimension that the key names, with full slices in place of an ellipsis."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if not isinstance(key, tuple) and isinstance(key, list) and any(isinstance(k, (slice, type(None))) for k in key):
        keys = list(key)
    consumed = 0
    for k in keys:
        if k is None or k is Ellipsis or isinstance(k, bool):
            continue
        is_mask = isinstance(k, _C.Tensor) and k.dtype in (_C.bool, _C.uint8)
        consumed += k.dim() if is_mask else 1
    if consumed > x.dim():
        raise IndexError(f"too many indices for tensor of dimension {x.dim()}")
    dots = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if dots:
        keys[dots[0] : dots[0] + 1] = [slice(None)] * (x.dim() - consumed)
    return keys


def _take_views(x: _C.Tensor, key: typing.Any) -> tuple[_C.Tensor, list[_C.Tensor | None]]:
    """Apply the part of a key that makes views; return the rest, one index or `None` for each dimension."""
    indices: list[_C.Tensor | None] = []
    dim = 0
    for k in _keys(x, key):
        if k is None:
            x = _C._ops.unsqueeze(x, dim)
        elif isinstance(k, bool):
            x = _C._ops.unsqueeze(x, dim)
            indices += [None] * (dim - len(indices)) + [_make([0] if k else [], dtype=_C.int64)]
        elif isinstance(k, slice):
            start, stop, step = k.start, k.stop, 1 if k.step is None else int(k.step)
            if step <= 0:
                raise ValueError("step must be greater than zero")
            if not (start is None and stop is None and step == 1):
                end = _MAX if stop is None else int(stop)
                args = [x, dim, 0 if start is None else int(start), end]
                x = _C._ops.slice(*args) if step == 1 else _C._ops.slice(*args, step)
        elif _is_index(k):
            index = _as_index(k, x)
            indices += [None] * (dim - len(indices)) + [index]
            dim += index.dim() - 1 if index.dtype in (_C.bool, _C.uint8) else 0
        elif hasattr(k, "__index__"):
            n, size = int(k.__index__()), x.shape[dim]
            if not -size <= n < size:
                raise IndexError(f"index {n} is out of bounds for dimension {dim} with size {size}")
            x = _C._ops.select(x, dim, n)
            continue
        else:
            raise TypeError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                f"(got {type(k).__name__})"
            )
        dim += 1
    return x, indices


def _make(data: typing.Any, **options: typing.Any) -> _C.Tensor:
    """Return a tensor of Python's values. A mode that makes graphs keeps the values."""
    for mode in reversed(_C._torch_dispatch_modes()):
        make_value = getattr(mode, "make_value", None)
        if make_value is not None:
            return make_value(_C.tensor, (data,), options)
    return _C.tensor(data, **options)


def getitem(x: _C.Tensor, key: typing.Any) -> typing.Any:
    """Return `x[key]`."""
    y, indices = _take_views(x, key)
    if indices:
        return _C._ops.index(y, indices)
    return _C._ops.alias(y) if y is x else y


def setitem(x: _C.Tensor, key: typing.Any, value: typing.Any) -> None:
    """Write `x[key] = value`."""
    view, indices = _take_views(x, key)
    is_number = not isinstance(value, _C.Tensor)
    if is_number and not isinstance(value, (int, float, complex)):
        value, is_number = _make(value, dtype=x.dtype), False
    if not indices:
        if is_number:
            view.fill_(value)
        else:
            view.copy_(_trim(value, view))
        return
    index = indices[0]
    if is_number and len(indices) == 1 and index is not None and index.dtype in (_C.bool, _C.uint8):
        mask = index
        while mask.dim() < view.dim():
            mask = _C._ops.unsqueeze(mask, mask.dim())
        view.masked_fill_(mask, value)
        return
    if is_number:
        value = _make(value, dtype=x.dtype, device=x.device)
    view.index_put_(indices, value)


def _trim(value: _C.Tensor, view: _C.Tensor) -> _C.Tensor:
    """Leave out leading dimensions of size one that the view does not have."""
    while value.dim() > view.dim() and value.shape[0] == 1:
        value = _C._ops.select(value, 0, 0)
    return value
