"""Questions about a tensor or an object."""

from __future__ import annotations

import sys

from .. import _C
from .._tensor import overridable_method
from ..overrides import _overridable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytpu import Tensor


def numel(input: Tensor) -> int:
    """Return the number of elements of `input`.

    Example:
        >>> import pytpu as torch
        >>> torch.numel(torch.zeros(2, 3))
        6
    """
    return input.numel()


def is_floating_point(input: Tensor) -> bool:
    """Return whether the dtype of `input` is floating point.

    Example:
        >>> import pytpu as torch
        >>> torch.is_floating_point(torch.zeros(1, dtype=torch.float16))
        True
    """
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Return whether the dtype of `input` is complex.

    Example:
        >>> import pytpu as torch
        >>> torch.is_complex(torch.zeros(1, dtype=torch.complex64))
        True
    """
    return input.is_complex()


def is_conj(input: Tensor) -> bool:
    """Return whether `input` is a conjugated view.

    Example:
        >>> import pytpu as torch
        >>> torch.is_conj(torch.zeros(1, dtype=torch.complex64).conj())
        True
    """
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Return whether `input` is a negated view.

    Example:
        >>> import pytpu as torch
        >>> torch.is_neg(torch.zeros(1, dtype=torch.complex64).conj().imag)
        True
    """
    return input.is_neg()


def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element of `input` is not zero.

    Raises:
        RuntimeError: If `input` does not have exactly one element.

    Example:
        >>> import pytpu as torch
        >>> torch.is_nonzero(torch.tensor([0.5]))
        True
    """
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same size.

    Example:
        >>> import pytpu as torch
        >>> torch.is_same_size(torch.zeros(2, 3), torch.ones(2, 3))
        True
    """
    return input.shape == other.shape


def is_signed(input: Tensor) -> bool:
    """Return whether the dtype of `input` has negative numbers.

    Example:
        >>> import pytpu as torch
        >>> torch.is_signed(torch.zeros(1, dtype=torch.uint8))
        False
    """
    return input.is_signed()


def get_device(input: Tensor) -> int:
    """Return the index of the device of `input`, or `-1` on the CPU.

    Example:
        >>> import pytpu as torch
        >>> torch.get_device(torch.zeros(1))
        -1
    """
    return input.get_device()


def is_inference(input: Tensor) -> bool:
    """Return whether `input` was made in inference mode.

    Example:
        >>> import pytpu as torch
        >>> with torch.inference_mode():
        ...     x = torch.zeros(1)
        >>> torch.is_inference(x)
        True
    """
    return input.is_inference()


is_inference_mode_enabled = _C.is_inference_mode_enabled


def is_storage(obj: object) -> bool:
    """Return whether `obj` is a storage.

    Example:
        >>> import pytpu as torch
        >>> torch.is_storage(torch.zeros(1).untyped_storage())
        True
    """
    there = sys.modules.get("pytpu.storage")
    return there is not None and isinstance(obj, (there.TypedStorage, there.UntypedStorage))


def is_distributed(input: Tensor) -> bool:
    """Always return `False`: a tensor is on one device."""
    return False


def typename(obj: object) -> str:
    """Return the name of a class or function, or of the type of another object. For a tensor it includes the dtype.

    Example:
        >>> import pytpu as torch
        >>> torch.typename(torch.zeros(1))
        'torch.FloatTensor'
    """
    if isinstance(obj, _C.Tensor):
        return obj.type()
    named: Any = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None) or "builtins"
    if named is _C.Tensor:
        module = "torch"
    return f"{module}.{named.__qualname__}" if module != "builtins" else named.__qualname__


for _name, _method in (("is_same_size", is_same_size),):
    setattr(_C.Tensor, _name, overridable_method(_method, _name))
del _name, _method

# Subclasses of tensors can intercept functions that take tensors, as they can intercept ops.
for _name in "is_complex is_conj is_floating_point is_neg is_nonzero is_same_size is_signed numel".split():
    globals()[_name] = _overridable(globals()[_name])
del _name
