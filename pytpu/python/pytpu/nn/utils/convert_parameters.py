"""Parameters as one vector, and back."""

import pytpu as torch


def _same_device(param, expected):
    if expected is not None and param.device != expected:
        raise TypeError(
            f"Found two parameters on different devices, {param.device} and {expected}. This is currently not supported."
        )
    return param.device


def parameters_to_vector(parameters):
    """All parameters, flattened and joined."""
    device, parts = None, []
    for param in parameters:
        device = _same_device(param, device)
        parts.append(param.reshape(-1))
    return torch.cat(parts)


def vector_to_parameters(vec, parameters):
    """Cuts a vector into the parameters' data."""
    if not isinstance(vec, torch.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {torch.typename(vec)}")
    device, start = None, 0
    for param in parameters:
        device = _same_device(param, device)
        count = param.numel()
        param.data = vec[start : start + count].view_as(param).data
        start += count
