"""Dropout."""

from __future__ import annotations

import warnings

from pytpu import _C, Tensor

_ops = _C._ops


def _probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to zero at random.

    Each element is dropped with probability `p`. The others are divided by `1 - p`, so that the mean stays.

    Args:
        input: Tensor `(*)`.
        p: Probability of dropping, in `[0, 1]`.
        training: Whether to drop. `False` returns the input.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.dropout(torch.ones(3), p=0.5, training=False)
        tensor([1., 1., 1.])
    """
    _probability(p)
    return (_ops.dropout_ if inplace else _ops.dropout)(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Set elements to the negative limit of `selu` at random.

    The result is scaled and shifted, so that mean 0 and variance 1 stay.

    Args:
        input: Tensor `(*)`.
        p: Probability of dropping, in `[0, 1]`.
        training: Whether to drop. `False` returns the input.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.alpha_dropout(torch.randn(20, 16), training=True).shape
        torch.Size([20, 16])
    """
    _probability(p)
    return (_ops.alpha_dropout_ if inplace else _ops.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Set whole channels to the negative limit of `selu` at random.

    The result is scaled and shifted, so that mean 0 and variance 1 stay.

    Args:
        input: Tensor `(n, c, *)`.
        p: Probability of dropping, in `[0, 1]`.
        training: Whether to drop. `False` returns the input.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.feature_alpha_dropout(torch.randn(20, 16, 4), training=True).shape
        torch.Size([20, 16, 4])
    """
    _probability(p)
    return (_ops.feature_alpha_dropout_ if inplace else _ops.feature_alpha_dropout)(input, p, training)


def _drop_channels(input, p, training, inplace, unbatched=False):
    drop = _ops.feature_dropout_ if inplace else _ops.feature_dropout
    if not unbatched:
        return drop(input, p, training)
    result = drop(input.unsqueeze_(0) if inplace else input.unsqueeze(0), p, training)
    return result.squeeze_(0) if inplace else result.squeeze(0)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels to zero at random.

    Each channel of each sample is dropped with probability `p`. The others are divided by `1 - p`.

    Args:
        input: Tensor `(n, c, l)` or `(c, l)`.
        p: Probability of dropping, in `[0, 1]`.
        training: Whether to drop. `False` returns the input.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        ValueError: `p` is not in `[0, 1]`.
        RuntimeError: `input` has other than 2 or 3 dimensions.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.dropout1d(torch.randn(20, 16, 4)).shape
        torch.Size([20, 16, 4])
    """
    _probability(p)
    ndim = input.dim()
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch "
            "dimension (i.e. 2D or 3D inputs)."
        )
    return _drop_channels(input, p, training, inplace, ndim != 3)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels to zero at random.

    Each channel of each sample is dropped with probability `p`. The others are divided by `1 - p`.

    Args:
        input: Tensor `(n, c, h, w)`. Other numbers of dimensions are deprecated, and the second one then counts
            channels.
        p: Probability of dropping, in `[0, 1]`.
        training: Whether to drop. `False` returns the input.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.dropout2d(torch.randn(20, 16, 4, 4)).shape
        torch.Size([20, 16, 4, 4])
    """
    _probability(p)
    ndim = input.dim()
    if ndim not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {ndim}-D input to dropout2d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            "dropout2d exists to provide channel-wise dropout on inputs with 2 spatial dimensions, a channel "
            "dimension, and an optional batch dimension (i.e. 3D or 4D inputs).",
            stacklevel=3,
        )
    if ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a "
            "future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain "
            "the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=3,
        )
    return _drop_channels(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels to zero at random.

    Each channel of each sample is dropped with probability `p`. The others are divided by `1 - p`.

    Args:
        input: Tensor `(n, c, d, h, w)` or `(c, d, h, w)`. Other numbers of dimensions are deprecated.
        p: Probability of dropping, in `[0, 1]`.
        training: Whether to drop. `False` returns the input.
        inplace: Whether to write the result to `input`.

    Returns:
        Tensor of the shape of `input`.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.dropout3d(torch.randn(2, 16, 4, 4, 4)).shape
        torch.Size([2, 16, 4, 4, 4])
    """
    _probability(p)
    ndim = input.dim()
    if ndim not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {ndim}-D input to dropout3d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            "dropout3d exists to provide channel-wise dropout on inputs with 3 spatial dimensions, a channel "
            "dimension, and an optional batch dimension (i.e. 4D or 5D inputs).",
            stacklevel=3,
        )
    return _drop_channels(input, p, training, inplace, ndim == 4)
