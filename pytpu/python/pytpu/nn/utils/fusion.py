"""Folding a batch normalisation into the layer before it, for inference."""

import copy

import pytpu as torch


def _scale_and_shift(bias, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    bias = torch.zeros_like(bn_rm) if bias is None else bias
    bn_w = torch.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = torch.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * torch.rsqrt(bn_rv + bn_eps)
    return scale, (bias - bn_rm) * scale + bn_b


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """The weight and bias of a convolution that does both."""
    scale, shift = _scale_and_shift(conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    shape = [1, -1] if transpose else [-1, 1]
    weight = conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2)).to(conv_w.dtype)
    bias_dtype = conv_b.dtype if conv_b is not None else conv_w.dtype
    return (
        torch.nn.Parameter(weight, conv_w.requires_grad),
        torch.nn.Parameter(shift.to(bias_dtype), conv_b.requires_grad if conv_b is not None else False),
    )


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """One convolution for a convolution and a batch normalisation, both in evaluation mode."""
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Expected bn.running_mean and bn.running_var to be non-None")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """The weight and bias of a linear layer that does both."""
    scale, shift = _scale_and_shift(linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    return (
        torch.nn.Parameter(linear_w * scale.unsqueeze(-1).to(linear_w.dtype), linear_w.requires_grad),
        torch.nn.Parameter(shift.to(linear_w.dtype), linear_b.requires_grad if linear_b is not None else False),
    )


def fuse_linear_bn_eval(linear, bn):
    """One linear layer for a linear layer and a batch normalisation, both in evaluation mode."""
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if not (linear.out_features == bn.num_features or bn.num_features == 1):
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
