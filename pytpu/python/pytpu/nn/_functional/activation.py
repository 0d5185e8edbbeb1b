"""Activations."""

import warnings

import pytpu as torch
from pytpu import _C

_ops = _C._ops


def _activation(name, inplace_name=None):
    inplace_name = inplace_name or name + "_"

    def activation(input, inplace=False):
        return getattr(_ops, inplace_name if inplace else name)(input)

    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = f"Applies `{name}` to every element."
    return activation


relu = _activation("relu")
relu6 = _activation("relu6")
selu = _activation("selu")
silu = _activation("silu")
mish = _activation("mish")
hardsigmoid = _activation("hardsigmoid")
hardswish = _activation("hardswish")


def threshold(input, threshold, value, inplace=False):
    """Keeps elements above `threshold` and replaces the others by `value`."""
    return (_ops.threshold_ if inplace else _ops.threshold)(input, threshold, value)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """Clamps to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (_ops.hardtanh_ if inplace else _ops.hardtanh)(input, min_val, max_val)


def elu(input, alpha=1.0, inplace=False):
    """x above zero, alpha * (exp(x) - 1) below."""
    return (_ops.elu_ if inplace else _ops.elu)(input, alpha)


def celu(input, alpha=1.0, inplace=False):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return (_ops.celu_ if inplace else _ops.celu)(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x above zero, negative_slope * x below."""
    return (_ops.leaky_relu_ if inplace else _ops.leaky_relu)(input, negative_slope)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky ReLU with a slope drawn from [lower, upper], or their mean outside training."""
    return (_ops.rrelu_ if inplace else _ops.rrelu)(input, lower, upper, training)


def glu(input, dim=-1):
    """First half times the sigmoid of the second half."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return _ops.glu(input, dim)


def tanhshrink(input):
    """x - tanh(x)."""
    return input - input.tanh()


def softsign(input):
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def tanh(input):
    """The hyperbolic tangent."""
    return input.tanh()


def sigmoid(input):
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def _softmax_dim(name, ndim, stacklevel):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) over its sum along `dim`."""
    if dim is None:
        dim = _softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """The softmax of -x."""
    if dim is None:
        dim = _softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of the softmax along `dim`."""
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample from the Gumbel-softmax distribution; with `hard` one-hot forward and soft backward."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    noise = -torch.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = torch.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
