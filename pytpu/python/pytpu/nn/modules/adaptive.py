"""Softmax over many classes, some of which are frequent."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from itertools import pairwise

import pytpu as torch
from pytpu import Tensor
from pytpu.nn import functional as F

from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from pytpu.types import Device


_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Compute log probabilities of many classes, of which the first are the most frequent.

    `cutoffs` divide the classes into a shortlist and clusters. The head scores the shortlist and each cluster
    as a whole. `tail[i]` scores the classes of cluster `i` from `in_features / div_value^(i + 1)` features.
    Clusters without targets are not computed on `cpu`.

    Args:
        in_features: Size of the input features.
        n_classes: Number of classes.
        cutoffs: First class of each cluster, ascending, between 1 and `n_classes - 1`.
        div_value: Factor by which the features shrink from cluster to cluster.
        head_bias: Whether the head learns a bias.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        head: Layer from the features to the shortlist and the clusters.
        tail: `ModuleList` with two layers for each cluster.

    Shape:
        Input `(n, in_features)` or `(in_features,)`; target `(n,)` or `()`. Output a named tuple of `output`,
            in the shape of the target, and `loss`, a scalar.

    Raises:
        ValueError: `cutoffs` is empty, not ascending, or out of range.
        RuntimeError: The shapes do not fit, or a target is not a class.

    Example:
        >>> import pytpu as torch
        >>> model = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs=[5, 10])
        >>> output, loss = model(torch.randn(4, 16), torch.tensor([1, 4, 9, 19]))
        >>> output.shape, loss.shape
        (torch.Size([4]), torch.Size([]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **like)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            features = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, features, bias=False, **like),
                    Linear(features, high - low, bias=False, **like),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new values for the head and the tail."""
        self.head.reset_parameters()
        for pair in self.tail:
            for layer in pair.children():
                reset: Any = layer.reset_parameters
                reset()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the log probabilities of the targets, and the loss.

        Args:
            input_: Features `(n, in_features)` or `(in_features,)`.
            target_: Class indices `(n,)` or `()`.

        Returns:
            A named tuple: `output`, the log probability of each target, and `loss`, their negative mean.

        Raises:
            RuntimeError: The shapes do not fit, or a target is not a class.
        """
        input, target = _batch(input_, target_)
        bounds = list(pairwise([0, *self.cutoffs]))
        members = [(target >= low) & (target < high) for low, high in bounds]
        # Read the counts, and nothing else: a cluster without targets is not computed and gets no gradient.
        counts = torch.stack([inside.sum() for inside in members]).tolist()
        if sum(counts) != len(target):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        in_head = target
        output = input.new_zeros(len(target))
        for i, ((low, high), inside) in enumerate(zip(bounds[1:], members[1:])):
            if counts[i + 1] == 0:
                continue
            in_head = in_head.masked_fill(inside, self.shortlist_size + i)
            if input.is_cpu:
                rows = inside.nonzero().squeeze(1)
                of_rows = _choose(self.tail[i](input[rows]), target[rows] - low)
                output = output.index_copy(0, rows, of_rows)
            else:
                # Compute all rows, so that sizes are the same at each step and no program is compiled again.
                of_rows = _choose(self.tail[i](input), (target - low).clamp(0, high - low - 1))
                output = torch.where(inside, of_rows, output)
        output = output + _choose(self.head(input), in_head)
        loss = (-output).mean()
        return _ASMoutput(output if target_.dim() else output.squeeze(0), loss)

    def _all(self, input, head):
        """Return the log probabilities of all classes, given the scores of the head."""
        head = F.log_softmax(head, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(input), dim=1) + head[:, self.shortlist_size + i, None])
        return torch.cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log probabilities of all classes.

        Args:
            input: Features `(n, in_features)`.

        Returns:
            Log probabilities `(n, n_classes)`.

        Example:
            >>> import pytpu as torch
            >>> model = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs=[5, 10])
            >>> model.log_prob(torch.randn(4, 16)).shape
            torch.Size([4, 20])
        """
        return self._all(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each sample.

        The result is that of `log_prob(input).argmax(dim=1)`. On `cpu` the tail is computed only where the head
        prefers a cluster.

        Args:
            input: Features `(n, in_features)`.

        Returns:
            Class indices `(n,)`, `int64`.

        Example:
            >>> import pytpu as torch
            >>> model = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs=[5, 10])
            >>> model.predict(torch.randn(4, 16)).shape
            torch.Size([4])
        """
        head = self.head(input)
        best = head.argmax(dim=1)
        rare = best >= self.shortlist_size
        if not input.is_cpu:
            return torch.where(rare, self._all(input, head).argmax(dim=1), best)
        rows = rare.nonzero().squeeze(1)
        return best.index_copy(0, rows, self._all(input[rows], head[rows]).argmax(dim=1)) if len(rows) else best


def _batch(input, target):
    """Return both tensors with a batch dimension."""
    if target.dim() == 1:
        if input.size(0) != target.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.dim() != 2:
            raise RuntimeError(f"1D target tensor expects 2D input tensors, but found inputs with size {input.size()}")
        return input, target
    if target.dim() == 0:
        if input.dim() != 1:
            raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input.size()}")
        return input.unsqueeze(0), target.unsqueeze(0)
    raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")


def _choose(scores, classes):
    """Return the log probability of one class for each row."""
    return F.log_softmax(scores, dim=1).gather(1, classes.unsqueeze(1)).squeeze(1)
