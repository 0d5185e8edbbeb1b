"""Pooling, and its inverse."""

import math

import pytpu as torch
from pytpu import _C

from .activation import relu

_ops = _C._ops


def _tuple(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value)


def _max_pool(n):
    plain, indexed = f"max_pool{n}d", f"max_pool{n}d_with_indices"

    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        stride = [] if stride is None else stride
        return getattr(_ops, indexed)(input, kernel_size, stride, padding, dilation, ceil_mode)

    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        stride = [] if stride is None else stride
        return getattr(_ops, indexed if return_indices else plain)(
            input, kernel_size, stride, padding, dilation, ceil_mode
        )

    pool.__name__ = pool.__qualname__ = plain
    pool.__doc__ = f"The maximum of every window of {n} spatial dimensions."
    with_indices.__name__ = with_indices.__qualname__ = indexed
    with_indices.__doc__ = "The maximum of every window, and where in its channel it was."
    return pool, with_indices


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of every window of the last dimension."""
    return _ops.avg_pool1d(input, kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The mean of every window of the last two dimensions."""
    return _ops.avg_pool2d(
        input, kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The mean of every window of the last three dimensions."""
    return _ops.avg_pool3d(
        input, kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _spatial(input, output_size):
    """`output_size` with its `None`s replaced by the input's own sizes."""
    if isinstance(output_size, int):
        return output_size
    size = input.size()
    if len(size) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    tail = size[len(size) - len(output_size) :]
    return [n if want is None else want for n, want in zip(tail, output_size)]


def _adaptive(n):
    def average(input, output_size):
        size = _spatial(input, (None,) * n if output_size is None else output_size)
        return getattr(_ops, f"adaptive_avg_pool{n}d")(input, _tuple(size, n))

    def maximum_with_indices(input, output_size, return_indices=False):
        size = _spatial(input, (None,) * n if output_size is None else output_size)
        return getattr(_ops, f"adaptive_max_pool{n}d")(input, _tuple(size, n))

    def maximum(input, output_size, return_indices=False):
        pooled = maximum_with_indices(input, output_size)
        return pooled if return_indices else pooled[0]

    for function, name in (
        (average, f"adaptive_avg_pool{n}d"),
        (maximum, f"adaptive_max_pool{n}d"),
        (maximum_with_indices, f"adaptive_max_pool{n}d_with_indices"),
    ):
        function.__name__ = function.__qualname__ = name
        function.__doc__ = "Pools to a given output size."
    return average, maximum, maximum_with_indices


adaptive_avg_pool1d, adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive(1)
adaptive_avg_pool2d, adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive(2)
adaptive_avg_pool3d, adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive(3)


def _fractional(n):
    plain, indexed = f"fractional_max_pool{n}d", f"fractional_max_pool{n}d_with_indices"

    def with_indices(
        input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
    ):
        if output_size is None and output_ratio is None:
            raise ValueError(f"{plain} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            ratio = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
            output_size = [int(size * r) for size, r in zip(input.size()[-n:], ratio)]
        if _random_samples is None:
            batch = 1 if input.dim() == n + 1 else input.size(0)
            _random_samples = torch.rand(batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
        return getattr(_ops, plain)(input, _tuple(kernel_size, n), _tuple(output_size, n), _random_samples)

    def pool(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        pooled = with_indices(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
        return pooled if return_indices else pooled[0]

    pool.__name__ = pool.__qualname__ = plain
    pool.__doc__ = "Maxima of windows whose places are drawn at random."
    with_indices.__name__ = with_indices.__qualname__ = indexed
    with_indices.__doc__ = "Maxima of windows whose places are drawn at random, and where they were."
    return pool, with_indices


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional(3)


def _lp_pool(n):
    def pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        if norm_type == 0:
            raise ValueError(f"norm_type must be a non-zero value, but got {norm_type}")
        if norm_type == math.inf:
            return (max_pool1d, max_pool2d, max_pool3d)[n - 1](torch.abs(input), kernel_size, stride, 0, 1, ceil_mode)
        kernel = _tuple(kernel_size, n)
        average = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1]
        mean = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
        return (torch.sign(mean) * relu(torch.abs(mean)) * math.prod(kernel)).pow(1.0 / norm_type)

    pool.__name__ = pool.__qualname__ = f"lp_pool{n}d"
    pool.__doc__ = "The p-norm of every window."
    return pool


lp_pool1d, lp_pool2d, lp_pool3d = _lp_pool(1), _lp_pool(2), _lp_pool(3)


def _unpool_output_size(input, kernel_size, stride, padding, output_size):
    n = len(kernel_size)
    spatial = input.size()[-n:]
    default = [(spatial[d] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(n)]
    if output_size is None:
        return default
    if len(output_size) == n + 2:
        output_size = output_size[2:]
    if len(output_size) != n:
        raise ValueError(
            "output_size should be a sequence containing "
            f"{n} or {n + 2} elements, but it has a length of '{len(output_size)}'"
        )
    for d in range(n):
        if not default[d] - stride[d] < output_size[d] < default[d] + stride[d]:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between '
                f"{default[d] - stride[d]} and {default[d] + stride[d]})"
            )
    return list(output_size)


def _max_unpool(n):
    def unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        kernel = _tuple(kernel_size, n)
        steps = kernel if stride is None else _tuple(stride, n)
        padding = _tuple(padding, n)
        size = _unpool_output_size(input, kernel, steps, padding, output_size)
        if n == 1:
            return _ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)
        if n == 2:
            return _ops.max_unpool2d(input, indices, size)
        return _ops.max_unpool3d(input, indices, size, steps, padding)

    unpool.__name__ = unpool.__qualname__ = f"max_unpool{n}d"
    unpool.__doc__ = "Puts pooled maxima back where they were; zero elsewhere."
    return unpool


max_unpool1d, max_unpool2d, max_unpool3d = _max_unpool(1), _max_unpool(2), _max_unpool(3)
