"""Activations and multi-head attention."""

from __future__ import annotations

import pytpu as torch
from pytpu import _C, Tensor
from pytpu.nn import functional as F, init
from pytpu.nn.parameter import Parameter

from .linear import NonDynamicallyQuantizableLinear
from .module import Module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from pytpu.types import Device


_ops = _C._ops


class Threshold(Module):
    """Keep elements above a threshold and replace the others.

    `y = x` where `x > threshold`, and `value` elsewhere.

    Args:
        threshold: Elements above it are kept.
        value: Value of the others.
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Threshold(0.5, 20.0)(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([20., 20.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class _Inplace(Module):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return `inplace=True` for the repr, if so."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """Set negative elements to zero.

    `y = max(0, x)`.

    Args:
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ReLU()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([0., 0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return _ops.relu_(input) if self.inplace else _ops.relu(input)


class SiLU(_Inplace):
    """Multiply each element by its sigmoid.

    `y = x * sigmoid(x)`, also called swish.

    Args:
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.SiLU()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.2384,  0.0000,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.silu(input, self.inplace)


class Mish(_Inplace):
    """Multiply each element by the hyperbolic tangent of its softplus.

    `y = x * tanh(log(1 + exp(x)))`.

    Args:
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Mish()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.2525,  0.0000,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.mish(input, self.inplace)


class SELU(_Inplace):
    """Apply the scaled exponential linear unit.

    `y = scale * x` where `x > 0`, and `scale * alpha * (exp(x) - 1)` elsewhere, with `scale = 1.0507...` and
    `alpha = 1.6733...`.

    Args:
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.SELU()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-1.5202,  0.0000,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.selu(input, self.inplace)


class Hardsigmoid(_Inplace):
    """Apply a piecewise linear approximation of the sigmoid.

    `y = min(max(x / 6 + 1 / 2, 0), 1)`.

    Args:
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Hardsigmoid()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([0.1667, 0.5000, 0.8333])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Return an empty text: the repr shows no setting, as in PyTorch."""
        return ""


class Hardswish(_Inplace):
    """Multiply each element by a piecewise linear approximation of its sigmoid.

    `y = x * min(max(x / 6 + 1 / 2, 0), 1)`.

    Args:
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Hardswish()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.3333,  0.0000,  1.6667])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """Return an empty text: the repr shows no setting, as in PyTorch."""
        return ""


class RReLU(Module):
    """Scale negative elements by random slopes.

    `y = x` where `x >= 0`, and `a * x` elsewhere.

    In training mode, `a` is drawn uniformly from `[lower, upper]` for each element. In evaluation mode it is
    `(lower + upper) / 2`.

    Args:
        lower: Lower bound of the slope.
        upper: Upper bound of the slope.
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.RReLU(0.1, 0.3).eval()
        >>> layer(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.4000,  0.0000,  2.0000])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """Clamp each element to an interval.

    `y = min(max(x, min_val), max_val)`.

    Args:
        min_val: Lower end of the interval.
        max_val: Upper end of the interval.
        inplace: Whether to write the result to the input.
        min_value: Deprecated name of `min_val`.
        max_value: Deprecated name of `max_val`.

    Shape:
        Input `(*)`; output of the same shape.

    Raises:
        AssertionError: `max_val` is not above `min_val`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Hardtanh()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-1.,  0.,  1.])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        import warnings

        if min_value is not None:
            warnings.warn(
                "keyword argument `min_value` is deprecated and rename to `min_val`", FutureWarning, stacklevel=2
            )
            min_val = min_value
        if max_value is not None:
            warnings.warn(
                "keyword argument `max_value` is deprecated and rename to `max_val`", FutureWarning, stacklevel=2
            )
            max_val = max_value
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError("max_val must be greater than min_val")

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """Clamp each element to `[0, 6]`.

    `y = min(max(0, x), 6)`.

    Args:
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ReLU6()(torch.tensor([-2.0, 3.0, 8.0]))
        tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Return `inplace=True` for the repr, if so."""
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """Apply the logistic function.

    `y = 1 / (1 + exp(-x))`.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Sigmoid()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([0.1192, 0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return _ops.sigmoid(input)


class Tanh(Module):
    """Apply the hyperbolic tangent.

    `y = (exp(x) - exp(-x)) / (exp(x) + exp(-x))`.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Tanh()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.9640,  0.0000,  0.9640])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return _ops.tanh(input)


class LogSigmoid(Module):
    """Apply the logarithm of the logistic function.

    `y = log(1 / (1 + exp(-x)))`, which does not overflow.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.LogSigmoid()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-2.1269, -0.6931, -0.1269])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return _ops.log_sigmoid(input)


class Tanhshrink(Module):
    """Subtract the hyperbolic tangent from each element.

    `y = x - tanh(x)`.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Tanhshrink()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-1.0360,  0.0000,  1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.tanhshrink(input)


class Softsign(Module):
    """Divide each element by one plus its absolute value.

    `y = x / (1 + |x|)`.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Softsign()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.6667,  0.0000,  0.6667])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.softsign(input)


class ELU(Module):
    """Apply the exponential linear unit.

    `y = x` where `x > 0`, and `alpha * (exp(x) - 1)` elsewhere.

    Args:
        alpha: Negative of the limit for large negative elements.
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.ELU()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.8647,  0.0000,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(ELU):
    """Apply the continuously differentiable exponential linear unit.

    `y = max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.

    Args:
        alpha: Negative of the limit for large negative elements. Not 0.
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Raises:
        RuntimeError: `alpha` is 0.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.CELU(2.0)(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-1.2642,  0.0000,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.celu(input, self.alpha, self.inplace)


class GELU(Module):
    """Multiply each element by the normal distribution function.

    `y = x * P(Z <= x)` for a standard normal `Z`. `"tanh"` gives
    `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`.

    Args:
        approximate: `"none"` or `"tanh"`.

    Shape:
        Input `(*)`; output of the same shape.

    Raises:
        RuntimeError: `approximate` is something else.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.GELU()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.0455,  0.0000,  1.9545])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return _ops.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the approximation for the repr."""
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """Multiply one half of the input by the sigmoid of the other half.

    `y = a * sigmoid(b)`, where `a` and `b` are the halves along `dim`.

    Args:
        dim: Dimension to halve.

    Shape:
        Input `(*, 2 * k, *)`; output `(*, k, *)`.

    Raises:
        RuntimeError: The size of `dim` is odd, or the input is a scalar.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.GLU()(torch.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return the gated half of `input`."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension for the repr."""
        return f"dim={self.dim}"


class Hardshrink(Module):
    """Set elements near zero to zero.

    `y = x` where `|x| > lambd`, and 0 elsewhere.

    Args:
        lambd: Half the width of the interval around zero.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Hardshrink()(torch.tensor([-2.0, 0.3, 2.0]))
        tensor([-2.,  0.,  2.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return _ops.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return `lambd` for the repr."""
        return f"{self.lambd}"


class Softshrink(Module):
    """Move each element towards zero.

    `y = x - lambd` where `x > lambd`, `x + lambd` where `x < -lambd`, and 0 elsewhere.

    Args:
        lambd: Distance to move. Not negative.

    Shape:
        Input `(*)`; output of the same shape.

    Raises:
        RuntimeError: `lambd` is negative.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Softshrink()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-1.5000,  0.0000,  1.5000])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return _ops.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return `lambd` for the repr."""
        return str(self.lambd)


class LeakyReLU(Module):
    """Scale negative elements by a small slope.

    `y = x` where `x > 0`, and `negative_slope * x` elsewhere.

    Args:
        negative_slope: Factor of negative elements.
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.LeakyReLU(0.1)(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([-0.2000,  0.0000,  2.0000])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class Softplus(Module):
    """Apply a smooth approximation of ReLU.

    `y = log(1 + exp(beta * x)) / beta`, and `x` itself where `beta * x > threshold`.

    Args:
        beta: Sharpness of the bend at zero.
        threshold: Product `beta * x` above which the result is `x`.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Softplus()(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([0.1269, 0.6931, 2.1269])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return _ops.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """Scale negative elements by learned slopes.

    `y = x` where `x > 0`, and `weight * x` elsewhere.

    Args:
        num_parameters: Number of slopes: 1, or one for each channel.
        init: Initial value of the slopes.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(num_parameters,)`.

    Shape:
        Input `(n, c, *)` for a slope per channel, and `(*)` for one slope; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.PReLU()(torch.tensor([-2.0, 0.0, 2.0])).tolist()
        [-0.5, 0.0, 2.0]
    """

    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Device = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return _ops.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes for the repr."""
        return f"num_parameters={self.num_parameters}"


class _Dimensional(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """Return the dimension for the repr."""
        return f"dim={self.dim}"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)


class Softmax(_Dimensional):
    """Make elements positive and of sum 1 along a dimension.

    `y_i = exp(x_i) / sum_j exp(x_j)`.

    Args:
        dim: Dimension along which the results sum to 1. `None` is deprecated: it takes 0 for inputs of 0, 1 and
            3 dimensions, and 1 for others.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Softmax(dim=-1)(torch.tensor([0.0, 1.0, 2.0]))
        tensor([0.0900, 0.2447, 0.6652])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the result for `input` along `dim`."""
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_Dimensional):
    """Apply the softmax to the negated input.

    `y_i = exp(-x_i) / sum_j exp(-x_j)`.

    Args:
        dim: Dimension along which the results sum to 1. `None` is deprecated: it takes 0 for inputs of 0, 1 and
            3 dimensions, and 1 for others.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Softmin(dim=-1)(torch.tensor([0.0, 1.0, 2.0]))
        tensor([0.6652, 0.2447, 0.0900])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the result for `input` along `dim`."""
        return F.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_Dimensional):
    """Apply the logarithm of the softmax.

    `y_i = x_i - log(sum_j exp(x_j))`.

    Args:
        dim: Dimension along which the exponentials of the results sum to 1. `None` is deprecated: it takes 0
            for inputs of 0, 1 and 3 dimensions, and 1 for others.

    Shape:
        Input `(*)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.LogSoftmax(dim=-1)(torch.tensor([0.0, 1.0, 2.0]))
        tensor([-2.4076, -1.4076, -0.4076])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the result for `input` along `dim`."""
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Apply the softmax over the channels at each place of an image.

    `y_c = exp(x_c) / sum_k exp(x_k)`.

    Shape:
        Input `(n, c, h, w)` or `(c, h, w)`; output of the same shape.

    Raises:
        ValueError: The input has other than 3 or 4 dimensions.

    Example:
        >>> import pytpu as torch
        >>> y = torch.nn.Softmax2d()(torch.randn(2, 3, 12, 13))
        >>> torch.allclose(y.sum(dim=1), torch.ones(2, 12, 13))
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax of `input` over its channels."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


class MultiheadAttention(Module):
    """Let queries attend to keys and values in several heads, with learned projections.

    `y = concat(head_1, ..., head_h) W_o`, where `head_i = softmax(Q_i K_i^T / sqrt(head_dim)) V_i` of the
    projected inputs.

    Args:
        embed_dim: Size `e` of queries and outputs. Divisible by `num_heads`.
        num_heads: Number of heads.
        dropout: Probability of dropping an attention weight in training mode.
        bias: Whether the projections learn biases.
        add_bias_kv: Whether to append a learned key and value to each sequence.
        add_zero_attn: Whether to append a key and value of zeros to each sequence.
        kdim: Size of the keys. `None` means `embed_dim`.
        vdim: Size of the values. `None` means `embed_dim`.
        batch_first: Whether inputs and outputs are `(n, l, e)` instead of `(l, n, e)`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        in_proj_weight: Parameter `(3 * embed_dim, embed_dim)`, or `None` where `kdim` or `vdim` differs from
            `embed_dim`.
        q_proj_weight, k_proj_weight, v_proj_weight: Parameters `(embed_dim, size)`, or `None` where there is
            `in_proj_weight`.
        in_proj_bias: Parameter `(3 * embed_dim,)`, or `None`.
        out_proj: Layer from `embed_dim` to `embed_dim`.

    Shape:
        Queries `(l, n, e)`, keys `(s, n, kdim)` and values `(s, n, vdim)`, or all without `n`.
        Output `(l, n, e)` or `(l, e)`. Weights `(n, l, s)` or `(l, s)`, with `num_heads` after `n` where they
            are not averaged.

    Raises:
        ValueError: `embed_dim` or `num_heads` is not positive.
        AssertionError: `num_heads` does not divide `embed_dim`.

    Example:
        >>> import pytpu as torch
        >>> attention = torch.nn.MultiheadAttention(64, 8, batch_first=True)
        >>> x = torch.randn(2, 10, 64)
        >>> out, weights = attention(x, x, x)
        >>> out.shape, weights.shape
        (torch.Size([2, 10, 64]), torch.Size([2, 10, 10]))
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(torch.empty((3 * embed_dim, embed_dim), **factory))
            self.register_parameter("q_proj_weight", None)
            self.register_parameter("k_proj_weight", None)
            self.register_parameter("v_proj_weight", None)
        else:
            self.q_proj_weight = Parameter(torch.empty((embed_dim, embed_dim), **factory))
            self.k_proj_weight = Parameter(torch.empty((embed_dim, self.kdim), **factory))
            self.v_proj_weight = Parameter(torch.empty((embed_dim, self.vdim), **factory))
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = Parameter(torch.empty(3 * embed_dim, **factory))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **factory)
        if add_bias_kv:
            self.bias_k = Parameter(torch.empty((1, 1, embed_dim), **factory))
            self.bias_v = Parameter(torch.empty((1, 1, embed_dim), **factory))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return what each query attends to, and the attention weights.

        Args:
            query: Queries `(l, n, e)`, `(n, l, e)` if `batch_first`, or `(l, e)`.
            key: Keys, of length `s` and size `kdim`.
            value: Values, of length `s` and size `vdim`.
            key_padding_mask: Mask `(n, s)` or `(s,)` of keys to leave out. `True` leaves a key out; floats are
                added to the scores.
            need_weights: Whether to return the weights. `False` allows a faster implementation.
            attn_mask: Mask `(l, s)` or `(n * num_heads, l, s)` of pairs to leave out. `True` leaves a pair out;
                floats are added to the scores.
            average_attn_weights: Whether to average the weights over the heads.
            is_causal: Hint that `attn_mask` is the causal mask. The mask must still be given.

        Returns:
            The output, in the shape of `query`, and the weights, or `None` where `need_weights` is false.

        Raises:
            AssertionError: A shape or the dtype of a mask does not fit.
            RuntimeError: `attn_mask` has another shape, or is missing although `is_causal` is set.
        """
        batched = query.dim() == 3
        if self.batch_first and batched:
            # Keep equal inputs one object: the projection recognises self-attention by identity.
            if key is value:
                if query is key:
                    query = key = value = query.transpose(1, 0)
                else:
                    query, key = query.transpose(1, 0), key.transpose(1, 0)
                    value = key
            else:
                query, key, value = (x.transpose(1, 0) for x in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        if self.batch_first and batched:
            output = output.transpose(1, 0)
        return output, weights
