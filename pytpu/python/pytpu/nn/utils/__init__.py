"""Gradient clipping, parameter vectors, padded and packed sequences, parametrized and pruned parameters."""

from __future__ import annotations

from typing import Any, TypeVar

from ..._function_names import keep_functions
from ..modules.module import Module
from . import parametrizations, parametrize, prune, rnn, stateless
from .clip_grad import (
    clip_grad_norm as clip_grad_norm,
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    clip_grads_with_norm_ as clip_grads_with_norm_,
    get_total_norm as get_total_norm,
)
from .convert_parameters import (
    parameters_to_vector as parameters_to_vector,
    vector_to_parameters as vector_to_parameters,
)
from .fusion import (
    fuse_conv_bn_eval as fuse_conv_bn_eval,
    fuse_conv_bn_weights as fuse_conv_bn_weights,
    fuse_linear_bn_eval as fuse_linear_bn_eval,
    fuse_linear_bn_weights as fuse_linear_bn_weights,
)
from .memory_format import (
    convert_conv2d_weight_memory_format as convert_conv2d_weight_memory_format,
    convert_conv3d_weight_memory_format as convert_conv3d_weight_memory_format,
)
from .spectral_norm import (
    remove_spectral_norm as remove_spectral_norm,
    spectral_norm as spectral_norm,
)
from .weight_norm import (
    remove_weight_norm as remove_weight_norm,
    weight_norm as weight_norm,
)

# `spectral_norm` and `weight_norm` are both functions and modules.
keep_functions(__name__)

_M = TypeVar("_M", bound=Module)


def skip_init(module_cls: type[_M], *args: Any, **kwargs: Any) -> _M:
    """Make a module without giving its parameters values.

    Args:
        module_cls: Module class whose constructor takes `device`.
        *args: Arguments of the constructor.
        **kwargs: Keyword arguments of the constructor. `device` is the device of the result, and `"cpu"`
            without one.

    Returns:
        The module. The values of its parameters are not set.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.utils.skip_init(torch.nn.Linear, 2, 3)
        >>> layer.weight.shape
        torch.Size([3, 2])
    """
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
