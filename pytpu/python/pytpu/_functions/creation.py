"""Functions that make a tensor from another object."""

from __future__ import annotations

from .. import _C
from . import _seen_by_modes
from .predicates import is_storage
from .settings import _once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytpu import Tensor


@_seen_by_modes
def asarray(
    obj: Any,
    *,
    dtype: _C.dtype | None = None,
    device: _C.device | str | int | None = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Convert an object to a tensor, without a copy where that is possible.

    Args:
        obj: Tensor, NumPy array, DLPack capsule, storage, object with a buffer, number, or nested sequence of numbers.
        dtype: Dtype of the result. `None` keeps that of `obj`.
        device: Device of the result. `None` keeps that of `obj`.
        copy: If `True`, always copy. If `False`, never copy. `None` copies if needed.
        requires_grad: Whether the result requires gradients. `None` is the value of `obj`.

    Returns:
        A tensor, on the memory of `obj` where possible.

    Raises:
        ValueError: If `copy` is `False` and the memory cannot be shared.

    Example:
        >>> import pytpu as torch
        >>> import numpy as np
        >>> a = np.zeros(2, dtype=np.float32)
        >>> t = torch.asarray(a)
        >>> a[0] = 5
        >>> t
        tensor([5., 0.])
    """
    device = None if device is None else _C.device(device)
    t = _share_memory(obj, dtype, copy)
    if t is None:
        if copy is False:
            if type(obj).__module__ == "numpy":
                raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return _C.tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    if copy is False:
        if device is not None and device.type != t.device.type:
            raise ValueError(f"can't alias tensor from device '{t.device}' to '{device}'.")
        if dtype is not None and dtype != t.dtype:
            raise ValueError(
                f"can't alias tensor with dtype '{t.dtype._scalar_type}' into dtype '{dtype._scalar_type}'."
            )
    if requires_grad is None and t.requires_grad and copy is not True:
        _once(
            "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
            "requires_grad=False explicitly to get the old behavior and silence this warning."
        )
    y = t.to(t.device if device is None else device, t.dtype if dtype is None else dtype)
    if copy and y is t:
        y = t.clone()
    if requires_grad is False and y.requires_grad:
        return y.detach()
    if requires_grad and not y.requires_grad:
        if not (y.is_floating_point() or y.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        y.requires_grad_()
    return y


def _share_memory(obj, dtype, copy):
    """Return a tensor on the memory of an object, or `None` if the object has none to share."""
    if isinstance(obj, _C.Tensor):
        return obj
    kind = type(obj)
    if kind in (list, tuple, float, int, bool, complex, str):
        return None
    if hasattr(obj, "_flat") and is_storage(obj):
        return _on_storage(obj, dtype)
    if hasattr(kind, "__array_interface__") and hasattr(kind, "__setitem__"):
        return _C.from_numpy(obj) if hasattr(obj, "flags") else _C.as_tensor(obj)
    if kind.__name__ == "PyCapsule":
        from ..utils.dlpack import from_dlpack

        return from_dlpack(obj)
    if kind.__module__ == "numpy":
        return None
    try:
        view = memoryview(obj)
    except TypeError:
        return None
    if dtype is None:
        names = {
            "b": "int8",
            "h": "int16",
            "i": "int32",
            "l": "int64",
            "q": "int64",
            "e": "float16",
            "f": "float32",
            "d": "float64",
            "?": "bool",
            "Zf": "complex64",
            "Zd": "complex128",
        }
        dtype = getattr(_C, names.get(view.format, "uint8"))
    from .._memory import frombuffer

    return frombuffer(obj, dtype=dtype)


def _on_storage(storage, dtype):
    """Return a tensor on the memory of a storage.

    Bytes without a dtype are `int64`, as in PyTorch, which reads them as a list of numbers.
    """
    flat = storage._flat()
    if flat.dtype is _C.uint8 and storage.untyped() is storage:
        dtype = _C.int64 if dtype is None else dtype
        return flat[: flat.numel() - flat.numel() % dtype.itemsize].view(dtype)
    return flat


@_seen_by_modes
def scalar_tensor(
    s: float | int | bool | complex,
    *,
    dtype: _C.dtype | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor without dimensions.

    Args:
        s: Its value.
        dtype: Its dtype. `None` is the default dtype.
        device: Its device. `None` is the default device.
        requires_grad: Whether it requires gradients.

    Example:
        >>> import pytpu as torch
        >>> torch.scalar_tensor(3)
        tensor(3.)
    """
    return _C.tensor(s, dtype=dtype or _C.get_default_dtype(), device=device, requires_grad=requires_grad)
