"""Activations."""

from __future__ import annotations

import warnings

import pytpu as torch
from pytpu import _C, Tensor

_ops = _C._ops


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Set negative elements to zero.

    `y = max(0, x)`.

    Args:
        input: Tensor `(*)`.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.relu(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([0., 0., 2.])
    """
    return (_ops.relu_ if inplace else _ops.relu)(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Clamp each element to `[0, 6]`.

    `y = min(max(0, x), 6)`.

    Args:
        input: Tensor `(*)`.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.relu6(torch.tensor([-2.0, 3.0, 8.0]))
        tensor([0., 3., 6.])
    """
    return (_ops.relu6_ if inplace else _ops.relu6)(input)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply the scaled exponential linear unit.

    `y = scale * x` where `x > 0`, and `scale * alpha * (exp(x) - 1)` elsewhere, with `scale = 1.0507...` and
    `alpha = 1.6733...`.

    Args:
        input: Tensor `(*)`.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.selu(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-1.5202,  0.0000,  2.1014])
    """
    return (_ops.selu_ if inplace else _ops.selu)(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Multiply each element by its sigmoid.

    `y = x * sigmoid(x)`, also called swish.

    Args:
        input: Tensor `(*)`.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.silu(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.2384,  0.0000,  1.7616])
    """
    return (_ops.silu_ if inplace else _ops.silu)(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Multiply each element by the hyperbolic tangent of its softplus.

    `y = x * tanh(log(1 + exp(x)))`.

    Args:
        input: Tensor `(*)`.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.mish(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.2525,  0.0000,  1.9440])
    """
    return (_ops.mish_ if inplace else _ops.mish)(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply a piecewise linear approximation of the sigmoid.

    `y = min(max(x / 6 + 1 / 2, 0), 1)`.

    Args:
        input: Tensor `(*)`.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.hardsigmoid(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([0.1667, 0.5000, 0.8333])
    """
    return (_ops.hardsigmoid_ if inplace else _ops.hardsigmoid)(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Multiply each element by a piecewise linear approximation of its sigmoid.

    `y = x * min(max(x / 6 + 1 / 2, 0), 1)`.

    Args:
        input: Tensor `(*)`.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.hardswish(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.3333,  0.0000,  1.6667])
    """
    return (_ops.hardswish_ if inplace else _ops.hardswish)(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Keep elements above a threshold and replace the others.

    `y = x` where `x > threshold`, and `value` elsewhere.

    Args:
        input: Tensor `(*)`.
        threshold: Elements above it are kept.
        value: Value of the others.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.threshold(torch.tensor([-2.0, 0.0, 2.0]), 0.5, 20.0)
        tensor([20., 20.,  2.])
    """
    return (_ops.threshold_ if inplace else _ops.threshold)(input, threshold, value)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Clamp each element to an interval.

    `y = min(max(x, min_val), max_val)`.

    Args:
        input: Tensor `(*)`.
        min_val: Lower end of the interval.
        max_val: Upper end of the interval.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        ValueError: `min_val` is above `max_val`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.hardtanh(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-1.,  0.,  1.])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (_ops.hardtanh_ if inplace else _ops.hardtanh)(input, min_val, max_val)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Apply the exponential linear unit.

    `y = x` where `x > 0`, and `alpha * (exp(x) - 1)` elsewhere.

    Args:
        input: Tensor `(*)`.
        alpha: Negative of the limit for large negative elements.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.elu(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.8647,  0.0000,  2.0000])
    """
    return (_ops.elu_ if inplace else _ops.elu)(input, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Apply the continuously differentiable exponential linear unit.

    `y = max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.

    Args:
        input: Tensor `(*)`.
        alpha: Negative of the limit for large negative elements. Not 0.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        RuntimeError: `alpha` is 0.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.celu(torch.tensor([-2.0, 0.0, 2.0]), 2.0)
        tensor([-1.2642,  0.0000,  2.0000])
    """
    return (_ops.celu_ if inplace else _ops.celu)(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Scale negative elements by a small slope.

    `y = x` where `x > 0`, and `negative_slope * x` elsewhere.

    Args:
        input: Tensor `(*)`.
        negative_slope: Factor of negative elements.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.leaky_relu(torch.tensor([-2.0, 0.0, 2.0]), 0.1)
        tensor([-0.2000,  0.0000,  2.0000])
    """
    return (_ops.leaky_relu_ if inplace else _ops.leaky_relu)(input, negative_slope)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Scale negative elements by random slopes.

    `y = x` where `x >= 0`, and `a * x` elsewhere. In training, `a` is drawn uniformly from `[lower, upper]` for
    each element. Otherwise it is `(lower + upper) / 2`.

    Args:
        input: Tensor `(*)`.
        lower: Lower bound of the slope.
        upper: Upper bound of the slope.
        training: Whether to draw slopes.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.rrelu(torch.tensor([-2.0, 0.0, 2.0]), 0.1, 0.3)
        tensor([-0.4000,  0.0000,  2.0000])
    """
    return (_ops.rrelu_ if inplace else _ops.rrelu)(input, lower, upper, training)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Multiply one half of the input by the sigmoid of the other half.

    `y = a * sigmoid(b)`, where `a` and `b` are the halves along `dim`.

    Args:
        input: Tensor `(*, 2 * k, *)`.
        dim: Dimension to halve.

    Returns:
        Tensor `(*, k, *)`.

    Raises:
        RuntimeError: The size of `dim` is odd, or `input` is a scalar.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.glu(torch.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return _ops.glu(input, dim)


def tanhshrink(input: Tensor) -> Tensor:
    """Subtract the hyperbolic tangent from each element.

    `y = x - tanh(x)`.

    Args:
        input: Tensor `(*)`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.tanhshrink(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-1.0360,  0.0000,  1.0360])
    """
    return _ops.tanhshrink(input)


def softsign(input: Tensor) -> Tensor:
    """Divide each element by one plus its absolute value.

    `y = x / (1 + |x|)`.

    Args:
        input: Tensor `(*)`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.softsign(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.6667,  0.0000,  0.6667])
    """
    return _ops.softsign(input)


def tanh(input: Tensor) -> Tensor:
    """Apply the hyperbolic tangent.

    `y = (exp(x) - exp(-x)) / (exp(x) + exp(-x))`.

    Args:
        input: Tensor `(*)`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.tanh(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.9640,  0.0000,  0.9640])
    """
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """Apply the logistic function.

    `y = 1 / (1 + exp(-x))`.

    Args:
        input: Tensor `(*)`.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.sigmoid(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([0.1192, 0.5000, 0.8808])
    """
    return input.sigmoid()


def _softmax_dim(name, ndim, stacklevel):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """Make elements positive and of sum 1 along a dimension.

    `y_i = exp(x_i) / sum_j exp(x_j)`.

    Args:
        input: Tensor `(*)`.
        dim: Dimension along which the results sum to 1. `None` is deprecated: it takes 0 for inputs of 0, 1 and
            3 dimensions, and 1 for others.
        _stacklevel: Stack level of the warning about `dim`.
        dtype: Dtype to convert `input` to before the computation. `None` keeps it.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.softmax(torch.tensor([0.0, 1.0, 2.0]), dim=-1)
        tensor([0.0900, 0.2447, 0.6652])
    """
    if dim is None:
        dim = _softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """Apply the softmax to the negated input.

    `y_i = exp(-x_i) / sum_j exp(-x_j)`.

    Args:
        input: Tensor `(*)`.
        dim: Dimension along which the results sum to 1. `None` is deprecated: it takes 0 for inputs of 0, 1 and
            3 dimensions, and 1 for others.
        _stacklevel: Stack level of the warning about `dim`.
        dtype: Dtype to convert `input` to before the computation. `None` keeps it.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.softmin(torch.tensor([0.0, 1.0, 2.0]), dim=-1)
        tensor([0.6652, 0.2447, 0.0900])
    """
    if dim is None:
        dim = _softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    """Apply the logarithm of the softmax.

    `y_i = x_i - log(sum_j exp(x_j))`.

    Args:
        input: Tensor `(*)`.
        dim: Dimension along which the exponentials of the results sum to 1. `None` is deprecated: it takes 0
            for inputs of 0, 1 and 3 dimensions, and 1 for others.
        _stacklevel: Stack level of the warning about `dim`.
        dtype: Dtype to convert `input` to before the computation. `None` keeps it.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.log_softmax(torch.tensor([0.0, 1.0, 2.0]), dim=-1)
        tensor([-2.4076, -1.4076, -0.4076])
    """
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Draw a sample from the Gumbel-softmax distribution.

    `y = softmax((logits + g) / tau)`, where `g` has a standard Gumbel distribution.

    Args:
        logits: Unnormalised log probabilities `(*)`.
        tau: Temperature. Positive.
        hard: Whether to return a one-hot sample with the gradient of the soft one.
        eps: Deprecated. It has no effect.
        dim: Dimension of the classes.

    Returns:
        Sample of the shape of `logits`, which sums to 1 along `dim`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> sample = F.gumbel_softmax(torch.zeros(3, 5), hard=True)
        >>> sample.sum(dim=-1)
        tensor([1., 1., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    noise = -torch.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = torch.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
