"""Rarely used names of `torch`."""

from __future__ import annotations

import enum

from . import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor


class AcceleratorError(RuntimeError):
    """An error of an accelerator. The device `tpu` raises `RuntimeError`."""


class Tag(enum.IntEnum):
    """Properties of an operator, given at registration. Tags are accepted and have no effect."""

    core, cudagraph_unsafe, data_dependent_output, dynamic_output_shape, flexible_layout, generated, inplace_view, \
        maybe_aliasing_or_mutating, needs_contiguous_strides, needs_exact_strides, needs_fixed_stride_order, \
        nondeterministic_bitwise, nondeterministic_seeded, pointwise, pt2_compliant_tag, reduction, \
        view_copy = range(17)  # fmt: skip


def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """Return the mean and the biased variance of each channel, and move the running statistics towards them.

    Args:
        input: `(n, c, ...)`.
        running_mean, running_var: `(c,)` or `None`; the variance that is kept is the unbiased one.
        momentum: the weight of the new values.
    """
    dims = [d for d in range(input.dim()) if d != 1]
    count = input.numel() // input.shape[1]
    variance, mean = _C._ops.var_mean(input, dims, correction=0)
    with _grad_off():
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        if running_var is not None:
            running_var.mul_(1 - momentum).add_(variance * (count / max(count - 1, 1)), alpha=momentum)
    return mean, variance


def _grad_off():
    from .autograd.grad_mode import no_grad

    return no_grad()


class _KindMeta(type):
    """The type of PyTorch's types of TorchScript values. Nothing is an instance of one."""

    def __instancecheck__(cls, instance):
        return False


class DeviceObjType(metaclass=_KindMeta):
    """The type of devices in TorchScript, for annotations. A device is a `torch.device`."""


class StreamObjType(metaclass=_KindMeta):
    """The type of streams in TorchScript, for annotations. A stream is a `torch.Stream`."""


class StorageBase(metaclass=_KindMeta):
    """The base of C++ storages, for annotations. Storages are `torch.UntypedStorage`."""

    __module__ = "torch._C"


def _disable_dynamo(fn=None, recursive=True):
    """Return the function itself: Python code is never traced. Without a function, return a decorator."""
    return fn if fn is not None else lambda f: f


def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Return whether the contents of one tensor could be replaced by another's: they are on the same kind of device."""
    return input.device.type == from_.device.type


def _shape_as_tensor(input: Tensor) -> Tensor:
    """Return the sizes of a tensor, as `int64` on `cpu`."""
    return _C.tensor(list(input.shape), dtype=_C.int64)


def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the product of matrices of `int8` (the first may be `uint8`) in `int32`.

    Raises:
        RuntimeError: If an operand is not a matrix of `int8` or the sizes do not fit.
    """
    names = {_C.float32: "float", _C.float64: "double", _C.uint8: "unsigned char", _C.int32: "int", _C.int64: "long"}
    for name, x, dtypes in (("self", input, (_C.int8, _C.uint8)), ("mat2", mat2, (_C.int8,))):
        if x.dim() != 2:
            raise RuntimeError(f"_int_mm: {name} must be a matrix, got {x.dim()}-D tensor")
        if x.dtype not in dtypes:
            said = names.get(x.dtype, str(x.dtype).removeprefix("torch."))
            allowed = "int8 or uint8" if len(dtypes) == 2 else "of type int8"
            raise RuntimeError(f"int_mm_out_cpu: Expected {name} dtype to be {allowed} but got {said}")
    if input.shape[1] != mat2.shape[0]:
        sizes = " and ".join("x".join(map(str, x.shape)) for x in (input, mat2))
        raise RuntimeError(f"_int_mm: mat1 and mat2 shapes cannot be multiplied ({sizes})")
    result = _C._ops.mm(input.to(_C.int32), mat2.to(_C.int32))
    return result if out is None else out.copy_(result)
