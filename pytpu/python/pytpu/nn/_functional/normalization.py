"""Normalisation."""

from __future__ import annotations

from collections.abc import Sequence

import pytpu as torch
from pytpu import _C, Tensor

from .pooling import avg_pool2d, avg_pool3d
from .vision import pad

_ops = _C._ops


def _verify_batch_size(size):
    count = size[0]
    for n in size[2:]:
        count *= n
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel over the batch and the spatial dimensions.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    Args:
        input: Tensor `(n, c, *)`.
        running_mean: Running means `(c,)`, or `None`. Training changes them in place.
        running_var: Running variances `(c,)`, or `None`. Training changes them in place.
        weight: Scale `(c,)`. `None` means 1.
        bias: Shift `(c,)`. `None` means 0.
        training: Whether mean and variance come from `input` instead of the running statistics.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`.
        eps: Number that is added to the variance.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        ValueError: In training, a channel has only one value, or `eps` is not positive.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.batch_norm(torch.tensor([[1.0], [3.0]]), None, None, training=True)
        tensor([[-1.0000],
                [ 1.0000]])
    """
    if training:
        _verify_batch_size(input.size())
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    return _ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample over the spatial dimensions.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    Args:
        input: Tensor `(n, c, *)`.
        running_mean: Running means `(c,)`, or `None`. They are changed in place where statistics come from
            `input`.
        running_var: Running variances `(c,)`, or `None`. They are changed likewise.
        weight: Scale `(c,)`. `None` means 1.
        bias: Shift `(c,)`. `None` means 0.
        use_input_stats: Whether mean and variance come from `input` instead of the running statistics.
        momentum: Weight of the newest batch in the running statistics:
            `running = (1 - momentum) * running + momentum * batch`.
        eps: Number that is added to the variance.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        ValueError: Statistics come from `input`, and a channel has only one value.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.instance_norm(torch.tensor([[[1.0, 3.0]]]))
        tensor([[[-1.0000,  1.0000]]])
    """
    if use_input_stats:
        count = 1
        for n in input.size()[2:]:
            count *= n
        if count == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return _ops.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each sample over its trailing dimensions.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    Args:
        input: Tensor `(*, *normalized_shape)`.
        normalized_shape: Sizes of the trailing dimensions.
        weight: Scale of that shape. `None` means 1.
        bias: Shift of that shape. `None` means 0.
        eps: Number that is added to the variance.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        RuntimeError: `input` does not end in `normalized_shape`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.layer_norm(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), (4,))
        tensor([[-1.3416, -0.4472,  0.4472,  1.3416]])
    """
    return _ops.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide each sample by the root mean square of its trailing dimensions.

    `y = x / sqrt(mean(x^2) + eps) * weight`.

    Args:
        input: Tensor `(*, *normalized_shape)`.
        normalized_shape: Sizes of the trailing dimensions.
        weight: Scale of that shape. `None` means 1.
        eps: Number that is added to the mean. `None` means the machine epsilon of the dtype of `input`.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        RuntimeError: `input` does not end in `normalized_shape`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.rms_norm(torch.tensor([[1.0, 7.0]]), (2,))
        tensor([[0.2000, 1.4000]])
    """
    return _ops.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise groups of channels of each sample.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance over a group of channels and
    all their places.

    Args:
        input: Tensor `(n, c, *)`.
        num_groups: Number of groups. It divides `c`.
        weight: Scale `(c,)`. `None` means 1.
        bias: Shift `(c,)`. `None` means 0.
        eps: Number that is added to the variance.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        RuntimeError: `input` has fewer than two dimensions, or `num_groups` does not divide `c`.
        ValueError: The batch has only one value for each group.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.group_norm(torch.randn(20, 6, 10, 10), 3).shape
        torch.Size([20, 6, 10, 10])
    """
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    size = input.size()
    _verify_batch_size([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return _ops.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide each channel by a power of the mean square of its neighbours.

    `y_c = x_c / (k + alpha / size * sum_i x_i^2)^beta`, where `i` runs over `size` channels around `c`.
    Channels outside are zero.

    Args:
        input: Tensor `(n, c, *)` with at least one spatial dimension.
        size: Number of neighbouring channels.
        alpha: Factor of the mean square.
        beta: Exponent.
        k: Number that is added.

    Returns:
        Tensor of the shape of `input`. The mean of `int64` is rounded down, and the result is floating point.

    Raises:
        ValueError: `input` has fewer than three dimensions.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.local_response_norm(torch.randn(32, 5, 24, 24), 2).shape
        torch.Size([32, 5, 24, 24])
    """
    ndim = input.dim()
    if ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {ndim} dimensions)")
    if input.numel() == 0:
        return input
    # Squares of 16-bit floats may overflow.
    wide = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    square = (wide * wide).unsqueeze(1)
    if ndim == 3:
        square = pad(square, (0, 0, size // 2, (size - 1) // 2))
        mean = avg_pool2d(square, (size, 1), stride=1).squeeze(1)
    else:
        shape = input.size()
        square = square.reshape(shape[0], 1, shape[1], shape[2], -1)
        square = pad(square, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        mean = avg_pool3d(square, (size, 1, 1), stride=1).squeeze(1).reshape(shape)
    y = wide / (mean * alpha + k) ** beta
    return y.to(input.dtype) if wide is not input else y


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Divide vectors by their norm.

    `y = x / max(norm(x), eps)`, with the `p`-norm along `dim`.

    Args:
        input: Tensor `(*)`.
        p: Exponent of the norm.
        dim: Dimension of the vectors.
        eps: Lower bound of the norm.
        out: Tensor to write to. `None` makes a new one.

    Returns:
        Tensor of the shape of `input`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.normalize(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / norm if out is None else torch.div(input, norm, out=out)
