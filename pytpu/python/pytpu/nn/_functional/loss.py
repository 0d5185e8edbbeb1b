"""Losses."""

import math
import warnings

import pytpu as torch
from pytpu import _C

_ops = _C._ops

# aten's numbers for the `reduction` argument.
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


def _reduced(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def _paired(input, target):
    """Broadcasts a loss's operands, with PyTorch's warning that they differ."""
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=4,
        )
        return torch.broadcast_tensors(input, target)
    return input, target


def _weighted(loss, weight, reduction):
    if weight is None:
        return _reduced(loss, reduction)
    if weight.size() != loss.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else _reduced(loss, reduction)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The mean squared difference."""
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _paired(input, target)
    if weight is not None:
        return _weighted(_ops.mse_loss(input, target, 0), weight, reduction)
    return _ops.mse_loss(input, target, _REDUCTIONS[reduction])


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The mean absolute difference."""
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _paired(input, target)
    are_floats = input.is_floating_point() and target.is_floating_point()
    off = _ops.l1_loss(input, target, 0) if are_floats else (input - target).abs()
    return _weighted(off, weight, reduction)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared below `beta`, absolute above."""
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _paired(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return _ops.smooth_l1_loss(input, target, _REDUCTIONS[reduction], beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the square below `delta`, linear above."""
    reduction = _reduction(reduction)
    input, target = _paired(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is None:
        return _ops.huber_loss(input, target, _REDUCTIONS[reduction], delta)
    return _weighted(_ops.huber_loss(input, target, 0, delta), weight, reduction)


def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """The cross entropy of logits with class indices or class probabilities."""
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.cross_entropy_loss(input, target, weight, _REDUCTIONS[reduction], ignore_index, label_smoothing)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """The negative log likelihood of class indices."""
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.nll_loss_nd(input, target, weight, _REDUCTIONS[reduction], ignore_index)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The cross entropy of probabilities with targets between 0 and 1."""
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
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """The cross entropy of sigmoid(input) with targets between 0 and 1, without overflow."""
    reduction = _reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return _ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, _REDUCTIONS[reduction])


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """The Kullback-Leibler divergence of log-probabilities from a target distribution."""
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
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    """The negative log likelihood of counts under a Poisson distribution."""
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.poisson_nll_loss(input, target, log_input, full, eps, _REDUCTIONS[reduction])


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """The negative log likelihood under Gaussians of the given variances."""
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(input)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif input.dim() == var.dim() and all(a == b or 1 in (a, b) for a, b in zip(input.size(), var.size())):
            pass
        else:
            raise ValueError("var is of incorrect size")
    if reduction not in _REDUCTIONS:
        raise ValueError(reduction + " is not valid")
    # The floor of the variance is not part of the function that is differentiated.
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input))."""
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.soft_margin_loss(input, target, _REDUCTIONS[reduction])


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over classes of the binary cross entropy of logits."""
    reduction = _reduction(reduction, size_average, reduce)
    loss = -(target * _ops.log_sigmoid(input) + (1 - target) * _ops.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1), reduction)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """The margin loss over several target classes a sample."""
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.multilabel_margin_loss(input, target, _REDUCTIONS[reduction])


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The multi-class margin loss."""
    reduction = _reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _ops.multi_margin_loss(input, target, p, margin, weight, _REDUCTIONS[reduction])


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """x where the target is 1, max(0, margin - x) where it is -1."""
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.hinge_embedding_loss(input, target, margin, _REDUCTIONS[reduction])


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target * (input1 - input2) + margin)."""
    reduction = _reduction(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _ops.margin_ranking_loss(input1, input2, target, margin, _REDUCTIONS[reduction])


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
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
    anchor,
    positive,
    negative,
    margin=1.0,
    p=2,
    eps=1e-6,
    swap=False,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
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
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """The triplet loss with any distance."""
    reduction = _reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    distance = _ops.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    return _reduced((margin + near - far).clamp_min(0), reduction)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """How unlikely the targets are to be spelled by sequences of class probabilities, with blanks and repetitions."""
    reduction = _REDUCTIONS[_reduction(reduction)]
    return _ops.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction="mean",
    ignore_index=None,
    label_smoothing=0.0,
    options=None,
):
    """The cross entropy of `linear(input)`."""
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
