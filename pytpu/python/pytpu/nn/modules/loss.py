"""Losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytpu as torch
from pytpu import Tensor
from pytpu.nn import functional as F

from .linear import Linear
from .module import Module
from .shape import PairwiseDistance

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Literal

    from pytpu.types import Device


class _Loss(Module):
    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = F._reduction(reduction, size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """Return the absolute difference of input and target.

    `loss = |input - target|`.

    Args:
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(*)`; target `(*)` of the same shape; output a scalar, or `(*)` if `reduction` is `"none"`.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> y = torch.tensor([1.0, 0.0, 6.0])
        >>> torch.nn.L1Loss()(x, y)
        tensor(1.6667)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Return the squared difference of input and target.

    `loss = (input - target)^2`.

    Args:
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(*)`; target `(*)` of the same shape; output a scalar, or `(*)` if `reduction` is `"none"`.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> y = torch.tensor([1.0, 0.0, 6.0])
        >>> torch.nn.MSELoss()(x, y)
        tensor(4.3333)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Return a loss that is squared near zero and absolute elsewhere.

    `loss = d^2 / (2 * beta)` where `d = |input - target|` is below `beta`, and `d - beta / 2` elsewhere.

    Args:
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        beta: Difference at which the loss changes its form. 0 gives the absolute difference.

    Shape:
        Input `(*)`; target `(*)` of the same shape; output a scalar, or `(*)` if `reduction` is `"none"`.

    Raises:
        RuntimeError: `beta` is negative.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> y = torch.tensor([1.0, 0.0, 6.0])
        >>> torch.nn.SmoothL1Loss()(x, y)
        tensor(1.3333)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Return a loss that is half the square near zero and linear elsewhere.

    `loss = d^2 / 2` where `d = |input - target|` is at most `delta`, and `delta * (d - delta / 2)` elsewhere.

    Args:
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        delta: Difference at which the loss changes its form. Positive.

    Shape:
        Input `(*)`; target `(*)` of the same shape; output a scalar, or `(*)` if `reduction` is `"none"`.

    Raises:
        RuntimeError: `delta` is not positive.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> y = torch.tensor([1.0, 0.0, 6.0])
        >>> torch.nn.HuberLoss(delta=2.0)(x, y)
        tensor(2.)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """Return the negative log likelihood of class indices.

    `loss = -weight[target] * input[target]`.

    Args:
        weight: Tensor `(c,)` of factors for the classes. `None` means 1 for all. `"mean"` divides by the sum of
            the factors used.
        size_average: Deprecated; use `reduction`.
        ignore_index: Class index whose places give no loss and no gradient.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(c,)`, `(n, c)` or `(n, c, d1, d2, ...)`: one score per class.
        Target of class indices, `int64`: the shape of the input without `c`.
        Output a scalar, or the shape of the class indices if `reduction` is `"none"`.

    Raises:
        IndexError: A target is not a class.

    Example:
        >>> import pytpu as torch
        >>> log_probs = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]).log()
        >>> torch.nn.NLLLoss()(log_probs, torch.tensor([0, 2]))
        tensor(0.4581)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """Return the negative log likelihood of class indices. An old name of `NLLLoss`.

    Args:
        weight: Tensor `(c,)` of factors for the classes. `None` means 1 for all. `"mean"` divides by the sum of
            the factors used.
        size_average: Deprecated; use `reduction`.
        ignore_index: Class index whose places give no loss and no gradient.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(c,)`, `(n, c)` or `(n, c, d1, d2, ...)`: one score per class.
        Target of class indices, `int64`: the shape of the input without `c`.
        Output a scalar, or the shape of the class indices if `reduction` is `"none"`.
    """


class CrossEntropyLoss(_WeightedLoss):
    """Return the cross entropy between logits and class indices or class probabilities.

    `loss = -weight[target] * log_softmax(input)[target]` for class indices, and
    `-sum_c weight[c] * target[c] * log_softmax(input)[c]` for probabilities.

    Args:
        weight: Tensor `(c,)` of factors for the classes. `None` means 1 for all. `"mean"` divides by the sum of
            the factors used.
        size_average: Deprecated; use `reduction`.
        ignore_index: Class index of the target whose places give no loss and no gradient.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        label_smoothing: Part of the target, in `[0, 1]`, that is spread evenly over all classes.

    Shape:
        Input `(c,)`, `(n, c)` or `(n, c, d1, d2, ...)`: one logit per class.
        Target of class indices, `int64`: the shape of the input without `c`.
        Target of probabilities, floating point: the shape of the input.
        Output a scalar, or the shape of the class indices if `reduction` is `"none"`.

    Example:
        >>> import pytpu as torch
        >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
        >>> torch.nn.CrossEntropyLoss()(logits, torch.tensor([0, 2]))
        tensor(0.1672)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class PoissonNLLLoss(_Loss):
    """Return the negative log likelihood of counts under a Poisson distribution.

    `loss = exp(input) - target * input`, or `input - target * log(input + eps)` where `log_input` is false.

    Args:
        log_input: Whether the input is the logarithm of the rate.
        full: Whether to add Stirling's approximation of `log(target!)` for targets above 1.
        size_average: Deprecated; use `reduction`.
        eps: Number that keeps the logarithm of a rate finite.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(*)`; target `(*)` of the same shape; output a scalar, or `(*)` if `reduction` is `"none"`.

    Example:
        >>> import pytpu as torch
        >>> rates, counts = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0])
        >>> torch.nn.PoissonNLLLoss()(rates, counts)
        tensor(0.3591)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `log_input` and `target`. See the class for shapes."""
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """Return the negative log likelihood of targets under normal distributions.

    `loss = (log(v) + (input - target)^2 / v) / 2`, where `v = max(var, eps)`.

    Args:
        full: Whether to add the constant `log(2 * pi) / 2`.
        eps: Lower bound of the variance.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input, the means, `(n, *)`; target of the same shape, or one that broadcasts to it.
        Variance: the shape of the input, the same with a last size of 1 or without the last dimension, or a
            number.
        Output a scalar, or the shape of the input if `reduction` is `"none"`.

    Raises:
        ValueError: A variance is negative or has another shape.

    Example:
        >>> import pytpu as torch
        >>> mean, target = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0])
        >>> torch.nn.GaussianNLLLoss()(mean, target, torch.ones(2))
        tensor(1.2500)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Return the loss of the means `input`, the values `target` and the variances `var`."""
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class KLDivLoss(_Loss):
    """Return the Kullback-Leibler divergence of a target distribution from log probabilities.

    `loss = target * (log(target) - input)`, or `exp(target) * (target - input)` where `log_target` is true.

    Args:
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"batchmean"` divides the sum by the first size and is the divergence. `"mean"` divides it by
            all sizes and warns. `"sum"` and `"none"` are as in other losses.
        log_target: Whether the target is log probabilities.

    Shape:
        Input `(*)`; target `(*)` of the same shape; output a scalar, or `(*)` if `reduction` is `"none"`.

    Example:
        >>> import pytpu as torch
        >>> p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
        >>> torch.nn.KLDivLoss(reduction="batchmean")(q.log(), p)
        tensor(0.1438)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """Return the binary cross entropy between probabilities and targets.

    `loss = -weight * (target * log(input) + (1 - target) * log(1 - input))`, with each logarithm bounded below
    by -100.

    Args:
        weight: Tensor of factors that broadcasts to the target. `None` means 1.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(*)`; target `(*)` of the same shape; output a scalar, or `(*)` if `reduction` is `"none"`.
        Input and target are in `[0, 1]`.

    Raises:
        ValueError: Input and target have different shapes.
        RuntimeError: An input is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> probabilities = torch.tensor([0.9, 0.2])
        >>> torch.nn.BCELoss()(probabilities, torch.tensor([1.0, 0.0]))
        tensor(0.1643)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Return the binary cross entropy between the sigmoid of logits and targets.

    `loss = -weight * (pos_weight * target * log(s) + (1 - target) * log(1 - s))`, where `s = sigmoid(input)`.
    It does not overflow for large logits.

    Args:
        weight: Tensor of factors that broadcasts to the loss. `None` means 1.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        pos_weight: Tensor of factors for positive targets that broadcasts to the target. `None` means 1.

    Shape:
        Input `(*)`; target `(*)` of the same shape; output a scalar, or `(*)` if `reduction` is `"none"`.
        Targets are in `[0, 1]`.

    Raises:
        ValueError: Input and target have different shapes.

    Example:
        >>> import pytpu as torch
        >>> logits = torch.tensor([2.0, -1.0])
        >>> torch.nn.BCEWithLogitsLoss()(logits, torch.tensor([1.0, 0.0]))
        tensor(0.2201)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class HingeEmbeddingLoss(_Loss):
    """Return the hinge loss of distances with targets 1 and -1.

    `loss = input` where the target is 1, and `max(0, margin - input)` where it is -1.

    Args:
        margin: Distance beyond which there is no loss.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(*)`; target `(*)` of the same shape; output a scalar, or `(*)` if `reduction` is `"none"`.

    Example:
        >>> import pytpu as torch
        >>> distances = torch.tensor([0.5, 0.25])
        >>> torch.nn.HingeEmbeddingLoss()(distances, torch.tensor([1, -1]))
        tensor(0.6250)
    """

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Return the margin loss of several target classes per sample.

    `loss = sum_ij max(0, 1 - (input[target[j]] - input[i])) / c`, for each target class `target[j]` and each
    class `i` that is none.

    Args:
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(c,)` or `(n, c)`.
        Target `int64` of the same shape: the classes of a sample, then -1 to the end.
        Output a scalar, or `()` or `(n,)` if `reduction` is `"none"`.

    Example:
        >>> import pytpu as torch
        >>> scores = torch.tensor([[0.1, 0.2, 0.4, 0.8]])
        >>> torch.nn.MultiLabelMarginLoss()(scores, torch.tensor([[3, 0, -1, 1]]))
        tensor(0.8500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """Return the logistic loss of scores with targets 1 and -1.

    `loss = log(1 + exp(-target * input))`.

    Args:
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(*)`; target `(*)` of the same shape; output a scalar, or `(*)` if `reduction` is `"none"`.

    Example:
        >>> import pytpu as torch
        >>> scores = torch.tensor([2.0, -1.0])
        >>> torch.nn.SoftMarginLoss()(scores, torch.tensor([1.0, -1.0]))
        tensor(0.2201)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Return the binary cross entropy of logits, averaged over the classes.

    `loss = -sum_c weight[c] * (target[c] * log(s[c]) + (1 - target[c]) * log(1 - s[c])) / c`, where
    `s = sigmoid(input)`.

    Args:
        weight: Tensor `(c,)` of factors for the classes. `None` means 1.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(*, c)`; target of the same shape, in `[0, 1]`; output a scalar, or `(*)` if `reduction` is
            `"none"`.

    Example:
        >>> import pytpu as torch
        >>> logits = torch.tensor([[2.0, -1.0]])
        >>> torch.nn.MultiLabelSoftMarginLoss()(logits, torch.tensor([[1.0, 0.0]]))
        tensor(0.2201)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """Return a loss of the cosine of pairs of vectors with targets 1 and -1.

    `loss = 1 - cos(input1, input2)` where the target is 1, and `max(0, cos(input1, input2) - margin)` where it
    is -1.

    Args:
        margin: Cosine below which pairs of target -1 have no loss, in `[-1, 1]`.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Inputs `(n, d)` or `(d,)`; target `(n,)` or `()`; output a scalar, or the shape of the target if
            `reduction` is `"none"`.

    Raises:
        RuntimeError: The shapes do not fit.

    Example:
        >>> import pytpu as torch
        >>> a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> torch.nn.CosineEmbeddingLoss()(a, b, torch.tensor([1]))
        tensor(0.2929)
    """

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss of the pairs `input1`, `input2` with `target`. See the class for shapes."""
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """Return a loss of pairs of scores that should be in a given order.

    `loss = max(0, -target * (input1 - input2) + margin)`: target 1 asks for a higher `input1`, and -1 for a
    higher `input2`.

    Args:
        margin: Difference of the scores beyond which there is no loss.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Inputs and target `(*)`, of as many dimensions; output a scalar, or `(*)` if `reduction` is `"none"`.

    Raises:
        RuntimeError: The numbers of dimensions differ.

    Example:
        >>> import pytpu as torch
        >>> first, second = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 3.0])
        >>> torch.nn.MarginRankingLoss()(first, second, torch.tensor([1, 1]))
        tensor(0.5000)
    """

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss of the scores `input1` and `input2` with `target`."""
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Return the margin loss of one target class per sample.

    `loss = sum_i weight[target] * max(0, margin - input[target] + input[i])^p / c`, for `i` other than
    `target`.

    Args:
        p: Exponent, 1 or 2.
        margin: Difference of the scores beyond which there is no loss.
        weight: Tensor `(c,)` of factors for the target classes. `None` means 1.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Input `(c,)` or `(n, c)`; target `int64`, `()` or `(n,)`; output a scalar, or the shape of the target if
            `reduction` is `"none"`.

    Raises:
        ValueError: `p` is neither 1 nor 2, or `weight` has other than one dimension.

    Example:
        >>> import pytpu as torch
        >>> scores = torch.tensor([[0.1, 0.2, 0.4, 0.8]])
        >>> torch.nn.MultiMarginLoss()(scores, torch.tensor([3]))
        tensor(0.3250)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """Return a loss that keeps an anchor nearer to a positive than to a negative example.

    `loss = max(0, d(anchor, positive) - d(anchor, negative) + margin)`, where `d(x, y)` is the `p`-norm of
    `x - y + eps`.

    Args:
        margin: Difference of the distances beyond which there is no loss. Positive.
        p: Exponent of the norm.
        eps: Number that is added to each difference.
        swap: Whether to take `d(positive, negative)` for the negative distance where it is smaller.
        size_average: Deprecated; use `reduction`.
        reduce: Deprecated; use `reduction`.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Inputs `(n, d)` or `(d,)`; output a scalar, or `(n,)` or `()` if `reduction` is `"none"`.

    Raises:
        ValueError: `margin` is not positive.
        RuntimeError: The numbers of dimensions differ.

    Example:
        >>> import pytpu as torch
        >>> anchor, near, far = torch.tensor([[[0.0]], [[1.0]], [[1.5]]])
        >>> torch.nn.TripletMarginLoss()(anchor, near, far)
        tensor(0.5000)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss of `anchor`, `positive` and `negative`. See the class for shapes."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """Return a triplet loss with a distance of choice.

    `loss = max(0, d(anchor, positive) - d(anchor, negative) + margin)`.

    Args:
        distance_function: Function of two tensors that returns their distances. `None` means
            `PairwiseDistance`.
        margin: Difference of the distances beyond which there is no loss. Positive.
        swap: Whether to take `d(positive, negative)` for the negative distance where it is smaller.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.

    Shape:
        Inputs `(n, *)`, as the distance takes them; output a scalar, or the distances' shape if `reduction` is
            `"none"`.

    Raises:
        ValueError: `margin` is not positive.
        RuntimeError: The numbers of dimensions differ.

    Example:
        >>> import pytpu as torch
        >>> anchor, near, far = torch.tensor([[0.0], [1.0], [1.5]])
        >>> loss = torch.nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs())
        >>> loss(anchor, near, far)
        tensor(0.5000)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = distance_function if distance_function is not None else PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss of `anchor`, `positive` and `negative`. See the class for shapes."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Return the connectionist temporal classification loss of sequences.

    `loss = -log p(target | log_probs)`, summed over all alignments. An alignment repeats labels and puts blanks
    between them.

    Args:
        blank: Class index of the blank label.
        reduction: `"mean"` divides each loss by its target length and averages over the batch, `"sum"` adds the
            losses, and `"none"` returns them all.
        zero_infinity: Whether to replace infinite losses and their gradients by 0. A loss is infinite where the
            target does not fit the input.

    Shape:
        `log_probs`: log probabilities `(t, n, c)` or `(t, c)`.
        `targets`: class indices `(n, s)`, or all targets joined, `(sum(target_lengths),)`.
        `input_lengths`, `target_lengths`: integers `(n,)` or `()`.
        Output a scalar, or `(n,)` or `()` if `reduction` is `"none"`.

    Example:
        >>> import pytpu as torch
        >>> log_probs = torch.full((3, 1, 2), 0.5).log()
        >>> torch.nn.CTCLoss()(log_probs, torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]))
        tensor(0.2877)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        """Return the loss of `targets` given `log_probs`. See the class for shapes."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class LinearCrossEntropyOptions:
    """Hold hints on how to compute `LinearCrossEntropyLoss` in chunks.

    The hints are checked and kept. They change nothing here: the compiler chooses.

    Args:
        allow_retain_graph: Whether backward may run more than once.
        batch_chunk_size: Number of samples per chunk. Positive.
        chunking_method: `None`, `"auto"` or `"aspect_ratio"`, which may be followed by `":"` and a positive
            factor.
        acc_policy: `"auto"`, `"accurate"` or `"compact"`.
        acc_dtype: Floating-point dtype of the accumulator. `None` leaves the choice to the op.

    Raises:
        ValueError: A value is not one of those above.

    Example:
        >>> import pytpu as torch
        >>> options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=64)
        >>> options.batch_chunk_size
        64
    """

    def __init__(
        self,
        allow_retain_graph: bool = False,
        batch_chunk_size: int | None = None,
        chunking_method: str | None = "auto",
        acc_policy: Literal["auto", "accurate", "compact"] = "auto",
        acc_dtype: torch.dtype | None = None,
    ) -> None:
        if acc_policy not in ("auto", "accurate", "compact"):
            raise ValueError(f"invalid acc_policy: {acc_policy!r}; expected one of 'auto', 'accurate', 'compact'")
        if chunking_method not in (None, "auto"):
            name, separator, factor = chunking_method.partition(":")
            factor = factor if separator else "1"
            if name != "aspect_ratio" or not factor.isdigit() or int(factor) < 1:
                raise ValueError(f"invalid chunking_method: {chunking_method!r}")
        if not (batch_chunk_size is None or isinstance(batch_chunk_size, int) and batch_chunk_size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {batch_chunk_size!r}")
        if not (acc_dtype is None or acc_dtype.is_floating_point):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, "
                f"got {acc_dtype!r}. Pass acc_dtype=None to let the op pick automatically."
            )
        self.allow_retain_graph = allow_retain_graph
        self.batch_chunk_size = batch_chunk_size
        self.chunking_method = chunking_method
        self.acc_policy = acc_policy
        self.acc_dtype = acc_dtype


class LinearCrossEntropyLoss(_WeightedLoss):
    """Apply a linear layer and return the cross entropy of its output.

    `loss = CrossEntropyLoss(Linear(input), target)`.

    Args:
        in_features: Size of the last dimension of the input.
        num_classes: Number of classes `c`.
        out_features: Further sizes of the output, for a loss at each of their places.
        bias: Whether the linear layer learns a bias.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        reduction: `"mean"` averages the losses, `"sum"` adds them, and `"none"` returns them all.
        weight: Tensor `(num_classes,)` of factors for the classes. `None` means 1.
        ignore_index: Class index whose places give no loss. `None` means -100.
        label_smoothing: Part of the target, in `[0, 1]`, that is spread evenly over all classes.
        options: Hints on how to compute the loss in chunks.

    Attributes:
        linear: The `Linear` layer, of `num_classes * prod(out_features)` outputs.

    Shape:
        Input `(n, in_features)`, or `(in_features,)` where `out_features` is empty.
        Target of class indices, `int64`: `(n, *out_features)` or `()`. Target of probabilities:
            `(n, num_classes, *out_features)` or `(num_classes,)`.
        Output a scalar, or the shape of the class indices if `reduction` is `"none"`.

    Raises:
        RuntimeError: A shape or `label_smoothing` does not fit.

    Example:
        >>> import pytpu as torch
        >>> loss = torch.nn.LinearCrossEntropyLoss(16, 10)
        >>> loss(torch.randn(4, 16), torch.tensor([1, 0, 3, 9])).shape
        torch.Size([])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: Sequence[int] = (),
        bias: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.in_features = in_features
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        rows = num_classes * math.prod(self.out_features)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` and `target`. See the class for shapes."""
        shape = (self.num_classes, *self.out_features)
        weight: Tensor = self.linear.weight
        bias: Tensor | None = self.linear.bias
        if self.out_features:
            weight = weight.unflatten(0, shape)
            bias = None if bias is None else bias.unflatten(0, shape)
        return F.linear_cross_entropy(
            input,
            weight,
            target,
            linear_bias=bias,
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
