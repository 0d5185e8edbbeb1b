"""Losses."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

import pytpu as torch
from pytpu import _C, Tensor

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from pytpu.nn.modules.loss import LinearCrossEntropyOptions


_ops = _C._ops

# Numbers of the reductions in aten.
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(reduction, size_average=None, reduce=None):
    if size_average is not None or reduce is not None:
        size_average = True if size_average is None else size_average
        reduce = True if reduce is None else reduce
        reduction = "none" if not reduce else "mean" if size_average else "sum"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=4,
        )
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _reduce(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def _pair(input, target):
    """Broadcast the operands of a loss, and warn as PyTorch does where their shapes differ."""
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=4,
        )
        return torch.broadcast_tensors(input, target)
    return input, target


def _weigh(loss, weight, reduction):
    if weight is None:
        return _reduce(loss, reduction)
    if weight.size() != loss.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else _reduce(loss, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the squared difference of input and target.

    `loss = (input - target)^2`.

    Args:
        input: Tensor `(*)`.
        target: Tensor of the same shape.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        weight: Factors of the losses, in their shape. `"mean"` divides by their sum. `None` means 1.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown, or `weight` has another shape.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> y = torch.tensor([1.0, 0.0, 6.0])
        >>> F.mse_loss(x, y)
        tensor(4.3333)
    """
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _pair(input, target)
    if weight is not None:
        return _weigh(_ops.mse_loss(input, target, 0), weight, reduction)
    return _ops.mse_loss(input, target, _REDUCTIONS[reduction])


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the absolute difference of input and target.

    `loss = |input - target|`.

    Args:
        input: Tensor `(*)`.
        target: Tensor of the same shape.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        weight: Factors of the losses, in their shape. `"mean"` divides by their sum. `None` means 1.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown, or `weight` has another shape.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> y = torch.tensor([1.0, 0.0, 6.0])
        >>> F.l1_loss(x, y)
        tensor(1.6667)
    """
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _pair(input, target)
    are_floats = input.is_floating_point() and target.is_floating_point()
    off = _ops.l1_loss(input, target, 0) if are_floats else (input - target).abs()
    return _weigh(off, weight, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return a loss that is squared near zero and absolute elsewhere.

    `loss = d^2 / (2 * beta)` where `d = |input - target|` is below `beta`, and `d - beta / 2` elsewhere.

    Args:
        input: Tensor `(*)`.
        target: Tensor of the same shape.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        beta: Difference at which the loss changes its form. 0 gives the absolute difference.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.
        RuntimeError: `beta` is negative.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> y = torch.tensor([1.0, 0.0, 6.0])
        >>> F.smooth_l1_loss(x, y)
        tensor(1.3333)
    """
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _pair(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return _ops.smooth_l1_loss(input, target, _REDUCTIONS[reduction], beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Return a loss that is half the square near zero and linear elsewhere.

    `loss = d^2 / 2` where `d = |input - target|` is at most `delta`, and `delta * (d - delta / 2)` elsewhere.

    Args:
        input: Tensor `(*)`.
        target: Tensor of the same shape.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        delta: Difference at which the loss changes its form. Positive.
        weight: Factors of the losses, in their shape. `"mean"` divides by their sum. `None` means 1.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown, or `weight` has another shape.
        RuntimeError: `delta` is not positive.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> y = torch.tensor([1.0, 0.0, 6.0])
        >>> F.huber_loss(x, y, delta=2.0)
        tensor(2.)
    """
    reduction = _reduction(reduction)
    input, target = _pair(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is None:
        return _ops.huber_loss(input, target, _REDUCTIONS[reduction], delta)
    return _weigh(_ops.huber_loss(input, target, 0, delta), weight, reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy between logits and class indices or class probabilities.

    `loss = -weight[target] * log_softmax(input)[target]` for class indices, and
    `-sum_c weight[c] * target[c] * log_softmax(input)[c]` for probabilities.

    Args:
        input: Logits `(c,)`, `(n, c)` or `(n, c, d1, d2, ...)`.
        target: Class indices, `int64`, in the shape of `input` without `c`, or probabilities in the shape of
            `input`.
        weight: Tensor `(c,)` of factors for the classes. `None` means 1 for all. `"mean"` divides by the sum of
            the factors used.
        size_average: Deprecated; use `reduction`.
        ignore_index: Class index of the target whose places give no loss and no gradient.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        label_smoothing: Part of the target, in `[0, 1]`, that is spread evenly over all classes.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.
        IndexError: A target is not a class.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
        >>> F.cross_entropy(logits, torch.tensor([0, 2]))
        tensor(0.1672)
    """
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.cross_entropy_loss(input, target, weight, _REDUCTIONS[reduction], ignore_index, label_smoothing)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log likelihood of class indices.

    `loss = -weight[target] * input[target]`.

    Args:
        input: Log probabilities `(c,)`, `(n, c)` or `(n, c, d1, d2, ...)`.
        target: Class indices, `int64`, in the shape of `input` without `c`.
        weight: Tensor `(c,)` of factors for the classes. `None` means 1 for all. `"mean"` divides by the sum of
            the factors used.
        size_average: Deprecated; use `reduction`.
        ignore_index: Class index whose places give no loss and no gradient.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.
        IndexError: A target is not a class.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> log_probs = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]).log()
        >>> F.nll_loss(log_probs, torch.tensor([0, 2]))
        tensor(0.4581)
    """
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.nll_loss_nd(input, target, weight, _REDUCTIONS[reduction], ignore_index)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the binary cross entropy between probabilities and targets.

    `loss = -weight * (target * log(input) + (1 - target) * log(1 - input))`, with each logarithm bounded below
    by -100.

    Args:
        input: Probabilities `(*)`.
        target: Tensor of the same shape, in `[0, 1]`.
        weight: Factors that broadcast to `target`. `None` means 1.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown, or the shapes differ.
        RuntimeError: An input is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.binary_cross_entropy(torch.tensor([0.9, 0.2]), torch.tensor([1.0, 0.0]))
        tensor(0.1643)
    """
    reduction = _reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(torch.broadcast_shapes(target.size(), weight.size()))
    return _ops.binary_cross_entropy(input, target, weight, _REDUCTIONS[reduction])


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the binary cross entropy between the sigmoid of logits and targets.

    `loss = -weight * (pos_weight * target * log(s) + (1 - target) * log(1 - s))`, where `s = sigmoid(input)`.
    It does not overflow for large logits.

    Args:
        input: Logits `(*)`.
        target: Tensor of the same shape, in `[0, 1]`.
        weight: Factors that broadcast to the loss. `None` means 1.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        pos_weight: Factors of positive targets that broadcast to `target`. `None` means 1.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown, or the shapes differ.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.binary_cross_entropy_with_logits(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0]))
        tensor(0.2201)
    """
    reduction = _reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return _ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, _REDUCTIONS[reduction])


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the Kullback-Leibler divergence of a target distribution from log probabilities.

    `loss = target * (log(target) - input)`, or `exp(target) * (target - input)` where `log_target` is true.

    Args:
        input: Log probabilities `(*)`.
        target: Probabilities, or log probabilities, of the same shape.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"batchmean"` divides the sum by the first size and is the divergence. `"mean"` divides it by
            all sizes and warns. `"sum"` and `"none"` are as in other losses.
        log_target: Whether `target` is log probabilities.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
        >>> F.kl_div(q.log(), p, reduction="batchmean")
        tensor(0.1438)
    """
    batchmean = reduction == "batchmean"
    if batchmean:
        if size_average is not None or reduce is not None:
            reduction = _reduction("sum", size_average, reduce)
        else:
            reduction = "sum"
    else:
        reduction = _reduction(reduction, size_average, reduce)
        if reduction == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support size."
                "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
                "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
                stacklevel=3,
            )
    loss = _ops.kl_div(input, target, _REDUCTIONS[reduction], log_target=log_target)
    return loss / input.size(0) if batchmean and input.dim() != 0 else loss


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log likelihood of counts under a Poisson distribution.

    `loss = exp(input) - target * input`, or `input - target * log(input + eps)` where `log_input` is false.

    Args:
        input: Rates, or their logarithms, `(*)`.
        target: Counts of the same shape.
        log_input: Whether `input` is the logarithm of the rate.
        full: Whether to add Stirling's approximation of `log(target!)` for targets above 1.
        size_average: Deprecated; use `reduction`.
        eps: Number that keeps the logarithm of a rate finite.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.poisson_nll_loss(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]))
        tensor(0.3591)
    """
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.poisson_nll_loss(input, target, log_input, full, eps, _REDUCTIONS[reduction])


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Return the negative log likelihood of targets under normal distributions.

    `loss = (log(v) + (input - target)^2 / v) / 2`, where `v = max(var, eps)`.

    Args:
        input: Means `(*)`.
        target: Values of the same shape, or one that broadcasts to it.
        var: Variances of the same shape, the same with sizes of 1 or without the last dimension, or a number.
            Not negative.
        full: Whether to add the constant `log(2 * pi) / 2`.
        eps: Lower bound of the variance.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown, or `var` is negative or of another shape.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.gaussian_nll_loss(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]), torch.ones(2))
        tensor(1.2500)
    """
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        variance = var * torch.ones_like(input)
    else:
        variance = var
        if (variance < 0).any():
            raise ValueError("var has negative entry/entries")
    if variance.size() != input.size():
        if input.size()[:-1] == variance.size():
            variance = variance.unsqueeze(-1)
        elif input.dim() == variance.dim() and all(
            a == b or 1 in (a, b) for a, b in zip(input.size(), variance.size())
        ):
            pass
        else:
            raise ValueError("var is of incorrect size")
    if reduction not in _REDUCTIONS:
        raise ValueError(reduction + " is not valid")
    # As in PyTorch, the lower bound of the variance has no part in the gradient.
    variance = variance.clone()
    with torch.no_grad():
        variance.clamp_(min=eps)
    # Squares and quotients of 16-bit floats may overflow.
    dtype = torch.promote_types(torch.result_type(input, target), variance.dtype)
    if dtype in (torch.float16, torch.bfloat16):
        input, target, variance = input.float(), target.float(), variance.float()
    loss = 0.5 * (variance.log() + (input - target) ** 2 / variance)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction).to(dtype)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the logistic loss of scores with targets 1 and -1.

    `loss = log(1 + exp(-target * input))`.

    Args:
        input: Tensor `(*)`.
        target: Tensor of the same shape.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.soft_margin_loss(torch.tensor([2.0, -1.0]), torch.tensor([1.0, -1.0]))
        tensor(0.2201)
    """
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.soft_margin_loss(input, target, _REDUCTIONS[reduction])


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the binary cross entropy of logits, averaged over the classes.

    `loss = -sum_c weight[c] * (target[c] * log(s[c]) + (1 - target[c]) * log(1 - s[c])) / c`, where
    `s = sigmoid(input)`.

    Args:
        input: Logits `(*, c)`.
        target: Tensor of the same shape, in `[0, 1]`.
        weight: Tensor `(c,)` of factors for the classes. `None` means 1.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.multilabel_soft_margin_loss(torch.tensor([[2.0, -1.0]]), torch.tensor([[1.0, 0.0]]))
        tensor(0.2201)
    """
    reduction = _reduction(reduction, size_average, reduce)
    loss = -(target * _ops.log_sigmoid(input) + (1 - target) * _ops.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduce(loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1), reduction)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the margin loss of several target classes per sample.

    `loss = sum_ij max(0, 1 - (input[target[j]] - input[i])) / c`, for each target class `target[j]` and each
    class `i` that is none.

    Args:
        input: Scores `(c,)` or `(n, c)`.
        target: Tensor `int64` of the same shape: the classes of a sample, then -1 to the end.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.multilabel_margin_loss(torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([[3, 0, -1, 1]]))
        tensor(0.8500)
    """
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.multilabel_margin_loss(input, target, _REDUCTIONS[reduction])


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the margin loss of one target class per sample.

    `loss = sum_i weight[target] * max(0, margin - input[target] + input[i])^p / c`, for `i` other than
    `target`.

    Args:
        input: Scores `(c,)` or `(n, c)`.
        target: Class indices, `int64`, `()` or `(n,)`.
        p: Exponent, 1 or 2.
        margin: Difference of the scores beyond which there is no loss.
        weight: Tensor `(c,)` of factors for the target classes. `None` means 1.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown, `p` is neither 1 nor 2, or `weight` has other than one dimension.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.multi_margin_loss(torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([3]))
        tensor(0.3250)
    """
    reduction = _reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _ops.multi_margin_loss(input, target, p, margin, weight, _REDUCTIONS[reduction])


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the hinge loss of distances with targets 1 and -1.

    `loss = input` where the target is 1, and `max(0, margin - input)` where it is -1.

    Args:
        input: Tensor `(*)`.
        target: Tensor of the same shape.
        margin: Distance beyond which there is no loss.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.hinge_embedding_loss(torch.tensor([0.5, 0.25]), torch.tensor([1, -1]))
        tensor(0.6250)
    """
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.hinge_embedding_loss(input, target, margin, _REDUCTIONS[reduction])


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return a loss of pairs of scores that should be in a given order.

    `loss = max(0, -target * (input1 - input2) + margin)`: target 1 asks for a higher `input1`, and -1 for a
    higher `input2`.

    Args:
        input1: Scores `(*)`.
        input2: Scores `(*)`.
        target: Tensor `(*)` of 1 and -1.
        margin: Difference of the scores beyond which there is no loss.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.
        RuntimeError: The numbers of dimensions differ.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.margin_ranking_loss(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 3.0]), torch.tensor([1, 1]))
        tensor(0.5000)
    """
    reduction = _reduction(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _ops.margin_ranking_loss(input1, input2, target, margin, _REDUCTIONS[reduction])


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return a loss of the cosine of pairs of vectors with targets 1 and -1.

    `loss = 1 - cos(input1, input2)` where the target is 1, and `max(0, cos(input1, input2) - margin)` where it
    is -1.

    Args:
        input1: Vectors `(n, d)` or `(d,)`.
        input2: Vectors `(n, d)` or `(d,)`.
        target: Tensor `(n,)` or `()` of 1 and -1.
        margin: Cosine below which pairs of target -1 have no loss, in `[-1, 1]`.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.
        RuntimeError: The shapes do not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> F.cosine_embedding_loss(a, b, torch.tensor([1]))
        tensor(0.2929)
    """
    reduction = _reduction(reduction, size_average, reduce)
    if not (
        target.dim() == 0
        and input1.dim() == input2.dim() == 1
        or target.dim() == 1
        and input1.dim() == input2.dim() == 2
    ):
        if target.dim() == 0:
            raise RuntimeError(
                "0D target tensor expects 1D input tensors, but found inputs with sizes "
                f"{list(input1.size())} and {list(input2.size())}."
            )
        if target.dim() == 1:
            raise RuntimeError(
                "1D target tensor expects 2D input tensors, but found inputs with sizes "
                f"{list(input1.size())} and {list(input2.size())}."
            )
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    return _ops.cosine_embedding_loss(input1, input2, target, margin, _REDUCTIONS[reduction])


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return a loss that keeps an anchor nearer to a positive than to a negative example.

    `loss = max(0, d(anchor, positive) - d(anchor, negative) + margin)`, where `d(x, y)` is the `p`-norm of
    `x - y + eps`.

    Args:
        anchor: Vectors `(n, d)` or `(d,)`.
        positive: Vectors that should be near.
        negative: Vectors that should be far.
        margin: Difference of the distances beyond which there is no loss. Positive.
        p: Exponent of the norm.
        eps: Number that is added to each difference.
        swap: Whether to take `d(positive, negative)` for the negative distance where it is smaller.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown, or `margin` is not positive.
        RuntimeError: The numbers of dimensions differ.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> anchor, near, far = torch.tensor([[[0.0]], [[1.0]], [[1.5]]])
        >>> F.triplet_margin_loss(anchor, near, far)
        tensor(0.5000)
    """
    reduction = _reduction(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    return _ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, _REDUCTIONS[reduction])


def _check_triplet(anchor, positive, negative):
    dims = anchor.dim(), positive.dim(), negative.dim()
    if len(set(dims)) != 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {dims[0]}D, positive {dims[1]}D, and negative {dims[2]}D inputs"
        )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return a triplet loss with a distance of choice.

    `loss = max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    Args:
        anchor: Tensor `(n, *)`, as the distance takes it.
        positive: Tensor that should be near.
        negative: Tensor that should be far.
        distance_function: Function of two tensors that returns their distances. `None` means
            `pairwise_distance`.
        margin: Difference of the distances beyond which there is no loss. Positive.
        swap: Whether to take `d(positive, negative)` for the negative distance where it is smaller.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown, or `margin` is not positive.
        RuntimeError: The numbers of dimensions differ.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> anchor, near, far = torch.tensor([[0.0], [1.0], [1.5]])
        >>> F.triplet_margin_with_distance_loss(anchor, near, far, distance_function=lambda x, y: (x - y).abs())
        tensor(0.5000)
    """
    reduction = _reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    distance = _ops.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    return _reduce((margin + near - far).clamp_min(0), reduction)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the connectionist temporal classification loss of sequences.

    `loss = -log p(target | log_probs)`, summed over all alignments. An alignment repeats labels and puts blanks
    between them.

    Args:
        log_probs: Log probabilities `(t, n, c)` or `(t, c)`.
        targets: Class indices `(n, s)`, or all targets joined, `(sum(target_lengths),)`.
        input_lengths: Integers `(n,)` or `()`, at most `t`.
        target_lengths: Integers `(n,)` or `()`.
        blank: Class index of the blank label.
        reduction: `"mean"` divides each loss by its target length and averages over the batch, `"sum"` adds the
            losses, and `"none"` returns them all.
        zero_infinity: Whether to replace infinite losses and their gradients by 0.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> log_probs = torch.full((3, 1, 2), 0.5).log()
        >>> F.ctc_loss(log_probs, torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]))
        tensor(0.2877)
    """
    number = _REDUCTIONS[_reduction(reduction)]
    lengths: tuple[Any, Any] = (input_lengths, target_lengths)  # Two tensors, or two sequences.
    return _ops.ctc_loss(log_probs, targets, lengths[0], lengths[1], blank, number, zero_infinity)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """Apply a linear map and return the cross entropy of its result.

    `loss = cross_entropy(linear(input, linear_weight, linear_bias), target)`.

    Args:
        input: Features `(n, in_features)` or `(in_features,)`.
        linear_weight: Tensor `(c, in_features)`, or `(c, d1, ..., in_features)` for a loss at each place.
        target: Class indices, `int64`, `(n, d1, ...)` or `()`, or probabilities `(n, c, d1, ...)` or `(c,)`.
        linear_bias: Tensor of the shape of `linear_weight` without `in_features`. `None` means 0.
        weight: Tensor `(c,)` of factors for the classes. `None` means 1 for all. `"mean"` divides by the sum of
            the factors used.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        ignore_index: Class index whose places give no loss. `None` means -100.
        label_smoothing: Part of the target, in `[0, 1]`, that is spread evenly over all classes.
        options: Hints on how to compute the loss in chunks. They change nothing here.

    Returns:
        A scalar, or the losses if `reduction` is `"none"`.

    Raises:
        ValueError: `reduction` is unknown.
        RuntimeError: A shape does not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.linear_cross_entropy(torch.randn(4, 16), torch.randn(10, 16), torch.tensor([1, 0, 3, 9])).shape
        torch.Size([])
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    if input.size(-1) != linear_weight.size(-1):
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.size(-1)} and {linear_weight.size(-1)}, respectively"
        )
    rows = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != rows:
        raise RuntimeError(f"expected linear_bias shape {rows}, got {tuple(linear_bias.shape)}")
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {input.size(-1)}), got unbatched input with shape {tuple(input.shape)}"
        )
    if ignore_index is not None and tuple(target.shape) == (*input.shape[:-1], *rows):
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    logits = _ops.linear(input, linear_weight.flatten(0, -2), None if linear_bias is None else linear_bias.flatten())
    if linear_weight.dim() > 2:
        logits = logits.unflatten(-1, rows)
    return cross_entropy(
        logits,
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )
