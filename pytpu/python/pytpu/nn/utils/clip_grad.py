"""Limits on the size of gradients."""

import warnings

import pytpu as torch

_NON_FINITE = (
    "The total norm of order {} for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this "
    "error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
)


def _listed(parameters):
    if isinstance(parameters, torch.Tensor):
        return [parameters]
    return list(parameters)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors taken as one vector."""
    tensors = _listed(tensors)
    norm_type = float(norm_type)
    with torch.no_grad():
        if not tensors:
            return torch.tensor(0.0)
        device = tensors[0].device
        norms = torch.stack([torch.linalg.vector_norm(t, norm_type).to(device) for t in tensors])
        total = torch.linalg.vector_norm(norms, norm_type)
        # Reading the value waits for the device, so it is done only when asked for.
        if error_if_nonfinite and torch.logical_or(total.isnan(), total.isinf()):
            raise RuntimeError(_NON_FINITE.format(norm_type))
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales all gradients by max_norm / total_norm where that is below one."""
    max_norm = float(max_norm)
    with torch.no_grad():
        # Multiplying by a factor clamped to one needs no look at its value, hence no wait.
        factor = torch.clamp(max_norm / (total_norm + 1e-6), max=1.0)
        for p in _listed(parameters):
            if p.grad is not None:
                p.grad.mul_(factor.to(p.grad.device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales all gradients so that their common norm is at most `max_norm`; returns what it was."""
    if not isinstance(parameters, torch.Tensor):
        generator = hasattr(parameters, "__next__")
        parameters = list(parameters)
        if generator and not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    parameters = _listed(parameters)
    total = get_total_norm([p.grad for p in parameters if p.grad is not None], norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The older name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Clamps every element of every gradient to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with torch.no_grad():
        for p in _listed(parameters):
            if p.grad is not None:
                p.grad.clamp_(min=-clip_value, max=clip_value)
