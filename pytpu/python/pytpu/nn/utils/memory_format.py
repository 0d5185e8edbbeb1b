"""Weights of convolutions in another order in memory, as in `torch.nn.utils`."""

from ..modules import conv


def convert_conv2d_weight_memory_format(module, memory_format):
    """The module; its weights stay as they are, since results are computed in one order whatever is asked for."""
    return _converted(module, memory_format, (conv.Conv2d, conv.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module, memory_format):
    """The module; its weights stay as they are, since results are computed in one order whatever is asked for."""
    return _converted(module, memory_format, (conv.Conv3d, conv.ConvTranspose3d))


def _converted(module, memory_format, kinds):
    for m in module.modules():
        if isinstance(m, kinds):
            m.weight.data = m.weight.detach().contiguous(memory_format=memory_format)
    return module
