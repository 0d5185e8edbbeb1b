"""Gradients of convolutions, as in `torch.nn.grad`."""

import pytpu as torch

from . import functional as F


def _gradient(convolve, input, weight, wanted, grad_output, options):
    """The gradient of `wanted`, which is `input` or `weight`; the other one is given."""
    with torch.enable_grad():
        input, weight = (t.detach().requires_grad_(t is wanted) for t in (input, weight))
        output = convolve(input, weight, None, *options)
        return torch.autograd.grad(output, input if input.requires_grad else weight, grad_output)[0]


def _of_input(convolve):
    def gradient(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        input = grad_output.new_empty(1).expand(input_size)
        return _gradient(convolve, input, weight, input, grad_output, (stride, padding, dilation, groups))

    gradient.__name__ = gradient.__qualname__ = f"{convolve.__name__}_input"
    gradient.__doc__ = f"The gradient of `{convolve.__name__}` for its input of `input_size`, from that of its output."
    return gradient


def _of_weight(convolve):
    def gradient(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        weight = grad_output.new_empty(1).expand(weight_size)
        return _gradient(convolve, input, weight, weight, grad_output, (stride, padding, dilation, groups))

    gradient.__name__ = gradient.__qualname__ = f"{convolve.__name__}_weight"
    gradient.__doc__ = (
        f"The gradient of `{convolve.__name__}` for its weight of `weight_size`, from that of its output."
    )
    return gradient


conv1d_input, conv2d_input, conv3d_input = map(_of_input, (F.conv1d, F.conv2d, F.conv3d))
conv1d_weight, conv2d_weight, conv3d_weight = map(_of_weight, (F.conv1d, F.conv2d, F.conv3d))
