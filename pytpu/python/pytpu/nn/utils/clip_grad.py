"""Gradient clipping."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import pytpu as torch
from pytpu import Tensor

_NON_FINITE = (
    "The total norm of order {} for gradients from `parameters` is non-finite, so it cannot be clipped. To disable "
    "this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
)


def _as_list(parameters):
    if isinstance(parameters, torch.Tensor):
        return [parameters]
    return list(parameters)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of tensors, taken as one vector.

    Args:
        tensors: Tensors, or one of them.
        norm_type: Exponent of the norm. `inf` gives the largest absolute value.
        error_if_nonfinite: Whether to raise where the norm is infinite or NaN. This reads the norm.
        foreach: Not used.

    Returns:
        A scalar, on the device of the first tensor.

    Raises:
        RuntimeError: The norm is infinite or NaN, and `error_if_nonfinite` is set.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
        tensor(5.)
    """
    listed = _as_list(tensors)
    norm_type = float(norm_type)
    with torch.no_grad():
        if not listed:
            return torch.tensor(0.0)
        total = _norm(listed, norm_type)
        # Read the value, which waits for the device, only if asked for.
        if error_if_nonfinite and torch.logical_or(total.isnan(), total.isinf()):
            raise RuntimeError(_NON_FINITE.format(norm_type))
    return total


def _norm(tensors: list[Any], order: float) -> Tensor:
    """Return the norm of tensors, which may be sharded."""
    mesh = getattr(tensors[0], "device_mesh", None)
    # The norm of order 0 counts the tensors that are not zero, so it needs the norm of each of them.
    if mesh is not None and order != 0 and all(getattr(t, "device_mesh", None) == mesh for t in tensors):
        from ...distributed.tensor._norm import norm_of_sharded

        return norm_of_sharded(tensors, order)
    norms = torch.stack([torch.linalg.vector_norm(t, order).to(tensors[0].device) for t in tensors])
    return torch.linalg.vector_norm(norms, order)


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients down so that their common norm is at most `max_norm`, given that norm.

    Each gradient is multiplied, in place, by `min(1, max_norm / (total_norm + 1e-6))`.

    Args:
        parameters: Parameters, or one of them. Those without a gradient are left out.
        max_norm: Largest norm.
        total_norm: Norm of all gradients, as `get_total_norm` returns it.
        foreach: Not used.

    Example:
        >>> import pytpu as torch
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> torch.nn.utils.clip_grads_with_norm_(weight, 1.0, torch.tensor(5.0))
        >>> weight.grad
        tensor([0.6000, 0.8000])
    """
    max_norm = float(max_norm)
    with torch.no_grad():
        # Multiply by a factor clamped to 1: its value is not read, so that nothing waits for the device.
        factor = torch.clamp(max_norm / (total_norm + 1e-6), max=1.0)
        for p in _as_list(parameters):
            if p.grad is not None:
                p.grad.mul_(placed_like(factor, p.grad))


def placed_like(factor: Tensor, grad: Tensor) -> Tensor:
    """Return a factor that a gradient, which may be sharded, can be multiplied with.

    Args:
        factor: The factor, without dimensions.
        grad: The gradient.
    """
    mesh: Any = getattr(grad, "device_mesh", None)
    # Sharded tensors take scalars on the host, and may have their parts there on a mesh of another device.
    if mesh is None or hasattr(factor, "device_mesh") or grad.device.type == "cpu":
        return factor.to(grad.device)
    from ...distributed.tensor import DTensor, Replicate

    return DTensor.from_local(factor.to(mesh.device_type), mesh, [Replicate()] * mesh.ndim, run_check=False)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients down so that their common norm is at most `max_norm`.

    Each gradient is multiplied, in place, by `min(1, max_norm / (total_norm + 1e-6))`.

    Args:
        parameters: Parameters, or one of them. Those without a gradient are left out.
        max_norm: Largest norm.
        norm_type: Exponent of the norm. `inf` gives the largest absolute value.
        error_if_nonfinite: Whether to raise where the norm is infinite or NaN. This reads the norm.
        foreach: Not used.

    Returns:
        The norm of the gradients before, a scalar.

    Raises:
        RuntimeError: The norm is infinite or NaN, and `error_if_nonfinite` is set.

    Example:
        >>> import pytpu as torch
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> torch.nn.utils.clip_grad_norm_([weight], max_norm=1.0)
        tensor(5.)
        >>> weight.grad
        tensor([0.6000, 0.8000])
    """
    if not isinstance(parameters, torch.Tensor):
        generator = hasattr(parameters, "__next__")
        parameters = list(parameters)
        if generator and not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    parameters = _as_list(parameters)
    total = get_total_norm([p.grad for p in parameters if p.grad is not None], norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients down. A deprecated name of `clip_grad_norm_`.

    Args:
        parameters: Parameters, or one of them. Those without a gradient are left out.
        max_norm: Largest norm.
        norm_type: Exponent of the norm. `inf` gives the largest absolute value.
        error_if_nonfinite: Whether to raise where the norm is infinite or NaN. This reads the norm.
        foreach: Not used.

    Returns:
        The norm of the gradients before, a scalar.
    """
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each element of the gradients to `[-clip_value, clip_value]`, in place.

    Args:
        parameters: Parameters, or one of them. Those without a gradient are left out.
        clip_value: Largest absolute value.
        foreach: Not used.

    Example:
        >>> import pytpu as torch
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, -0.5])
        >>> torch.nn.utils.clip_grad_value_([weight], 1.0)
        >>> weight.grad
        tensor([ 1.0000, -0.5000])
    """
    clip_value = float(clip_value)
    with torch.no_grad():
        for p in _as_list(parameters):
            if p.grad is not None:
                p.grad.clamp_(min=-clip_value, max=clip_value)
