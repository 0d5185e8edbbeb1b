"""Initial values of parameters, in place and without a gradient, as in `torch.nn.init`.

Bounds and deviations are Python floats, computed in one order. Each function draws from the generator in the order of
PyTorch, so that equal seeds give equal parameters.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytpu as torch
from pytpu import Tensor
from pytpu.overrides import _overridable

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Literal, TypeVar

    from typing_extensions import ParamSpec

    _P = ParamSpec("_P")

    _R = TypeVar("_R")
    _NonlinearityType = Literal[
        "linear",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "sigmoid",
        "tanh",
        "relu",
        "leaky_relu",
        "selu",
    ]
    _FanMode = Literal["fan_in", "fan_out"]


_LINEAR = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
)


def calculate_gain(nonlinearity: _NonlinearityType, param: int | float | None = None) -> float:
    """Return the recommended gain of a layer whose output goes through a nonlinearity.

    It is 1 for linear maps, convolutions and `"sigmoid"`, `5 / 3` for `"tanh"`, `sqrt(2)` for `"relu"`,
    `sqrt(2 / (1 + slope^2))` for `"leaky_relu"` and `3 / 4` for `"selu"`.

    Args:
        nonlinearity: Name of the nonlinearity, as in `torch.nn.functional`.
        param: Slope for `"leaky_relu"`. `None` means 0.01.

    Returns:
        The gain.

    Raises:
        ValueError: `nonlinearity` is unknown, or `param` is not a number.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.init.calculate_gain("leaky_relu", 1.0)
        1.0
    """
    if nonlinearity in _LINEAR or nonlinearity == "sigmoid":
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill a tensor with values drawn uniformly from `[a, b)`.

    Args:
        tensor: Tensor to fill, in place.
        a: Lower bound.
        b: Upper bound.
        generator: Source of the random numbers. `None` means the default generator of the device.

    Returns:
        `tensor`.

    Example:
        >>> import pytpu as torch
        >>> w = torch.nn.init.uniform_(torch.empty(3, 5), -1.0, 1.0)
        >>> bool((w.abs() <= 1).all())
        True
    """
    with torch.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill a tensor with values drawn from a normal distribution.

    Args:
        tensor: Tensor to fill, in place.
        mean: Mean.
        std: Standard deviation.
        generator: Source of the random numbers. `None` means the default generator of the device.

    Returns:
        `tensor`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.init.normal_(torch.empty(3, 5), std=0.02).shape
        torch.Size([3, 5])
    """
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor with one value.

    Args:
        tensor: Tensor to fill, in place.
        val: The value.

    Returns:
        `tensor`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.init.constant_(torch.empty(2), 0.3)
        tensor([0.3000, 0.3000])
    """
    with torch.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor with ones.

    Args:
        tensor: Tensor to fill, in place.

    Returns:
        `tensor`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.init.ones_(torch.empty(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor with zeros.

    Args:
        tensor: Tensor to fill, in place.

    Returns:
        `tensor`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.init.zeros_(torch.empty(2))
        tensor([0., 0.])
    """
    with torch.no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity.

    Args:
        tensor: Matrix `(m, n)` to fill, in place.

    Returns:
        `tensor`.

    Raises:
        ValueError: `tensor` does not have two dimensions.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.init.eye_(torch.empty(2, 3))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with torch.no_grad():
        torch.eye(*tensor.shape, out=tensor, requires_grad=tensor.requires_grad)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution so that it returns its input.

    Output channel `i` of each group gets input channel `i`, as far as there are both. The others get zeros.

    Args:
        tensor: Weight `(out_channels, in_channels, *kernel_size)` with one to three spatial dimensions, to fill
            in place.
        groups: Number of groups. It divides `out_channels`.

    Returns:
        `tensor`.

    Raises:
        ValueError: `tensor` has other than 3, 4 or 5 dimensions, or `groups` does not divide its first size.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.init.dirac_(torch.empty(1, 1, 3))
        tensor([[[0., 1., 0.]]])
    """
    ndim = tensor.ndimension()
    if ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    out_per_group = sizes[0] // groups
    centre = tuple(n // 2 for n in sizes[2:])
    with torch.no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(out_per_group, sizes[1])):
                place = (g * out_per_group + d, d, *centre)
                tensor[place] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    receptive = 1
    for n in tensor.shape[2:]:
        receptive *= n
    return tensor.size(1) * receptive, tensor.size(0) * receptive


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill a tensor with Xavier uniform values.

    Values are drawn from `[-a, a]` with `a = gain * sqrt(6 / (fan_in + fan_out))`. `fan_in` is `tensor.size(1)`
    and `fan_out` is `tensor.size(0)`, both times the size of the kernel for convolutions.

    Args:
        tensor: Tensor to fill, in place.
        gain: Factor.
        generator: Source of the random numbers. `None` means the default generator of the device.

    Returns:
        `tensor`.

    Raises:
        ValueError: `tensor` has fewer than two dimensions.

    Example:
        >>> import pytpu as torch
        >>> w = torch.nn.init.xavier_uniform_(torch.empty(3, 3))
        >>> bool((w.abs() <= 1).all())
        True
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(fan_in + fan_out)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill a tensor with Xavier normal values.

    Values are drawn with mean 0 and standard deviation `gain * sqrt(2 / (fan_in + fan_out))`. `fan_in` is
    `tensor.size(1)` and `fan_out` is `tensor.size(0)`, both times the size of the kernel for convolutions.

    Args:
        tensor: Tensor to fill, in place.
        gain: Factor.
        generator: Source of the random numbers. `None` means the default generator of the device.

    Returns:
        `tensor`.

    Raises:
        ValueError: `tensor` has fewer than two dimensions.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.init.xavier_normal_(torch.empty(3, 5)).shape
        torch.Size([3, 5])
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: _FanMode = "fan_in",
    nonlinearity: _NonlinearityType = "leaky_relu",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Fill a tensor with Kaiming uniform values.

    Values are drawn from `[-b, b]` with `b = gain * sqrt(3 / fan)`. `fan_in` is `tensor.size(1)` and `fan_out`
    is `tensor.size(0)`, both times the size of the kernel for convolutions.

    Args:
        tensor: Tensor to fill, in place.
        a: Slope of `"leaky_relu"`. Other nonlinearities do not use it.
        mode: `"fan_in"` keeps the variance in the forward, and `"fan_out"` in the backward.
        nonlinearity: Name of the nonlinearity after the layer, as `calculate_gain` takes it.
        generator: Source of the random numbers. `None` means the default generator of the device.

    Returns:
        `tensor`.

    Raises:
        ValueError: `tensor` has fewer than two dimensions, or `mode` or `nonlinearity` is unknown.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.init.kaiming_uniform_(torch.empty(3, 5), nonlinearity="relu").shape
        torch.Size([3, 5])
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    with torch.no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: _FanMode = "fan_in",
    nonlinearity: _NonlinearityType = "leaky_relu",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Fill a tensor with Kaiming normal values.

    Values are drawn with mean 0 and standard deviation `gain / sqrt(fan)`. `fan_in` is `tensor.size(1)` and
    `fan_out` is `tensor.size(0)`, both times the size of the kernel for convolutions.

    Args:
        tensor: Tensor to fill, in place.
        a: Slope of `"leaky_relu"`. Other nonlinearities do not use it.
        mode: `"fan_in"` keeps the variance in the forward, and `"fan_out"` in the backward.
        nonlinearity: Name of the nonlinearity after the layer, as `calculate_gain` takes it.
        generator: Source of the random numbers. `None` means the default generator of the device.

    Returns:
        `tensor`.

    Raises:
        ValueError: `tensor` has fewer than two dimensions, or `mode` or `nonlinearity` is unknown.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.init.kaiming_normal_(torch.empty(3, 5), mode="fan_out", nonlinearity="relu").shape
        torch.Size([3, 5])
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    with torch.no_grad():
        return tensor.normal_(0, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Fill a tensor with values drawn from a normal distribution cut off at `[a, b]`.

    Values outside are drawn again. Where the interval holds less than 0.3 of the distribution, uniform
    candidates are accepted with a probability proportional to the density, which is faster.

    Args:
        tensor: Tensor to fill, in place.
        mean: Mean of the distribution before the cut.
        std: Standard deviation before the cut. 0 gives the mean, clamped to the interval.
        a: Lower bound.
        b: Upper bound.
        generator: Source of the random numbers. `None` means the default generator of the device.

    Returns:
        `tensor`.

    Raises:
        ValueError: `std` is negative.

    Example:
        >>> import pytpu as torch
        >>> w = torch.nn.init.trunc_normal_(torch.empty(3, 5))
        >>> bool((w.abs() <= 2).all())
        True
    """
    if std <= 0:
        if std < 0:
            raise ValueError(f"std must be non-negative, got {std}")
        with torch.no_grad():
            return tensor.fill_(min(max(mean, a), b))

    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            (
                "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
                "incorrect."
            ),
            stacklevel=2,
        )

    def cdf(x):
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    with torch.no_grad():
        lo, hi = (a - mean) / std, (b - mean) / std
        if cdf(hi) - cdf(lo) > 0.3:
            tensor.normal_(mean, std, generator=generator)
            while True:
                outside = (tensor < a) | (tensor > b)
                if not outside.any():
                    return tensor
                tensor.copy_(
                    torch.where(outside, torch.empty_like(tensor).normal_(mean, std, generator=generator), tensor)
                )
        peak = min(max(mean, a), b)
        peak_log = -0.5 * ((peak - mean) / std) ** 2
        pending = torch.ones_like(tensor, dtype=torch.bool)
        while pending.any():
            candidate = torch.empty_like(tensor).uniform_(a, b, generator=generator)
            luck = torch.empty_like(tensor).uniform_(0, 1, generator=generator)
            accepted = luck.log() <= -0.5 * ((candidate - mean) / std) ** 2 - peak_log
            tensor.copy_(torch.where(pending & accepted, candidate, tensor))
            pending = pending & ~accepted
        return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: torch.Generator | None = None) -> Tensor:
    """Fill a tensor with a (semi-)orthogonal matrix.

    All dimensions after the first are taken as one. The matrix is uniformly distributed.

    Args:
        tensor: Tensor with at least two dimensions to fill, in place.
        gain: Factor.
        generator: Source of the random numbers. `None` means the default generator of the device.

    Returns:
        `tensor`.

    Raises:
        ValueError: `tensor` has fewer than two dimensions.

    Example:
        >>> import pytpu as torch
        >>> w = torch.nn.init.orthogonal_(torch.empty(3, 5))
        >>> torch.allclose(w @ w.T, torch.eye(3), atol=1e-6)
        True
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, cols = tensor.size(0), tensor.numel() // tensor.size(0)
    with torch.no_grad():
        flat = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
        if rows < cols:
            flat = flat.t()
        q, r = torch.linalg.qr(flat)
        # Multiply by the signs of the diagonal of R, so that Q is uniformly distributed.
        q = q * r.diagonal(0).sign()
        if rows < cols:
            q = q.t()
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: torch.Generator | None = None) -> Tensor:
    """Fill a matrix with normal values, and set a part of each column to zero.

    Args:
        tensor: Matrix `(m, n)` to fill, in place.
        sparsity: Part of each column to set to zero, in `[0, 1]`.
        std: Standard deviation of the other values.
        generator: Source of the random numbers. `None` means the default generator of the device.

    Returns:
        `tensor`.

    Raises:
        ValueError: `tensor` does not have two dimensions.

    Example:
        >>> import pytpu as torch
        >>> w = torch.nn.init.sparse_(torch.empty(10, 3), sparsity=0.1)
        >>> (w == 0).sum(dim=0)
        tensor([1, 1, 1])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with torch.no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            # As in PyTorch, permutations come from the default generator even if one is given.
            tensor[torch.randperm(rows)[:zeros], col] = 0
    return tensor


for _function in (uniform_, normal_, constant_, kaiming_uniform_):
    # Modes that skip initialisation recognise these functions by `__module__`.
    _function.__module__ = "torch.nn.init"
    globals()[_function.__name__] = _overridable(_function)
del _function


def _deprecate(function: Callable[_P, _R]) -> Callable[_P, _R]:
    new = function.__name__
    old = new[:-1]

    def renamed(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = old
    renamed.__doc__ = f"Call `{new}` with the same arguments. A deprecated name of it."
    return renamed


uniform = _deprecate(uniform_)
normal = _deprecate(normal_)
constant = _deprecate(constant_)
eye = _deprecate(eye_)
dirac = _deprecate(dirac_)
xavier_uniform = _deprecate(xavier_uniform_)
xavier_normal = _deprecate(xavier_normal_)
kaiming_uniform = _deprecate(kaiming_uniform_)
kaiming_normal = _deprecate(kaiming_normal_)
orthogonal = _deprecate(orthogonal_)
sparse = _deprecate(sparse_)
