"""Folding a batch normalisation into the layer before it, for inference."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import pytpu as torch
from pytpu import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..modules.batchnorm import _BatchNorm
    from ..modules.conv import _ConvNd
    from ..modules.linear import Linear
    from ..parameter import Parameter

_ConvT = TypeVar("_ConvT", bound="_ConvNd")
_LinearT = TypeVar("_LinearT", bound="Linear")


def _scale_and_shift(bias, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    bias = torch.zeros_like(bn_rm) if bias is None else bias
    bn_w = torch.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = torch.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * torch.rsqrt(bn_rv + bn_eps)
    return scale, (bias - bn_rm) * scale + bn_b


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a convolution that includes a batch normalisation after it.

    Args:
        conv_w: Weight of the convolution.
        conv_b: Its bias, `(c,)`. `None` means 0.
        bn_rm: Running means of the normalisation, `(c,)`.
        bn_rv: Running variances, `(c,)`.
        bn_eps: Number that is added to the variances.
        bn_w: Scale, `(c,)`. `None` means 1.
        bn_b: Shift, `(c,)`. `None` means 0.
        transpose: Whether the convolution is a transposed one.

    Returns:
        The new weight and the new bias.
    """
    scale, shift = _scale_and_shift(conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    shape = [1, -1] if transpose else [-1, 1]
    weight = conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2)).to(conv_w.dtype)
    bias_dtype = conv_b.dtype if conv_b is not None else conv_w.dtype
    return (
        torch.nn.Parameter(weight, conv_w.requires_grad),
        torch.nn.Parameter(shift.to(bias_dtype), conv_b.requires_grad if conv_b is not None else False),
    )


def fuse_conv_bn_eval(conv: _ConvT, bn: _BatchNorm, transpose: bool = False) -> _ConvT:
    """Return one convolution for a convolution and a batch normalisation after it.

    Args:
        conv: The convolution, in evaluation mode.
        bn: The normalisation, in evaluation mode, with running statistics.
        transpose: Whether the convolution is a transposed one.

    Returns:
        A new convolution.

    Raises:
        AssertionError: A module is in training mode, or there are no running statistics.

    Example:
        >>> import pytpu as torch
        >>> conv, bn = torch.nn.Conv2d(2, 3, 1).eval(), torch.nn.BatchNorm2d(3).eval()
        >>> fused = torch.nn.utils.fuse_conv_bn_eval(conv, bn)
        >>> x = torch.randn(1, 2, 4, 4)
        >>> torch.allclose(fused(x), bn(conv(x)), atol=1e-6)
        True
    """
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Expected bn.running_mean and bn.running_var to be non-None")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a linear layer that includes a batch normalisation after it.

    Args:
        linear_w: Weight of the layer.
        linear_b: Its bias, `(c,)`. `None` means 0.
        bn_rm: Running means of the normalisation, `(c,)`.
        bn_rv: Running variances, `(c,)`.
        bn_eps: Number that is added to the variances.
        bn_w: Scale, `(c,)`. `None` means 1.
        bn_b: Shift, `(c,)`. `None` means 0.

    Returns:
        The new weight and the new bias.
    """
    scale, shift = _scale_and_shift(linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    return (
        torch.nn.Parameter(linear_w * scale.unsqueeze(-1).to(linear_w.dtype), linear_w.requires_grad),
        torch.nn.Parameter(shift.to(linear_w.dtype), linear_b.requires_grad if linear_b is not None else False),
    )


def fuse_linear_bn_eval(linear: _LinearT, bn: _BatchNorm) -> _LinearT:
    """Return one linear layer for a linear layer and a batch normalisation after it.

    Args:
        linear: The layer, in evaluation mode.
        bn: The normalisation, in evaluation mode, with running statistics.

    Returns:
        A new layer.

    Raises:
        AssertionError: A module is in training mode, or the numbers of features differ.

    Example:
        >>> import pytpu as torch
        >>> linear, bn = torch.nn.Linear(2, 3).eval(), torch.nn.BatchNorm1d(3).eval()
        >>> fused = torch.nn.utils.fuse_linear_bn_eval(linear, bn)
        >>> x = torch.randn(4, 2)
        >>> torch.allclose(fused(x), bn(linear(x)), atol=1e-6)
        True
    """
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if not (linear.out_features == bn.num_features or bn.num_features == 1):
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    mean: Any = bn.running_mean
    var: Any = bn.running_var
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias)
    return fused
