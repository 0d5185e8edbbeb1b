"""Dropout layers."""

from __future__ import annotations

from pytpu import Tensor
from pytpu.nn import functional as F

from .module import Module


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Set elements to zero at random in training mode.

    Each element is dropped with probability `p`. The others are divided by `1 - p`, so that the mean stays.
    Evaluation mode changes nothing.

    Args:
        p: Probability of dropping, in `[0, 1]`.
        inplace: Whether to write the result to the input.

    Shape:
        Input `(*)`; output of the same shape.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Dropout(p=0.2)
        >>> layer(torch.randn(20, 16)).shape
        torch.Size([20, 16])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with elements dropped in training mode."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Set whole channels to zero at random in training mode.

    Each channel of each sample is dropped with probability `p`. The others are divided by `1 - p`. Evaluation
    mode changes nothing.

    Args:
        p: Probability of dropping, in `[0, 1]`.
        inplace: Whether to write the result to the input.

    Shape:
        Input `(n, c, l)` or `(c, l)`; output of the same shape.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Dropout1d(p=0.2)
        >>> layer(torch.randn(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with elements dropped in training mode."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Set whole channels to zero at random in training mode.

    Each channel of each sample is dropped with probability `p`. The others are divided by `1 - p`. Evaluation
    mode changes nothing.

    Args:
        p: Probability of dropping, in `[0, 1]`.
        inplace: Whether to write the result to the input.

    Shape:
        Input `(n, c, h, w)`. An input `(n, c, l)` is deprecated; output of the same shape.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Dropout2d(p=0.2)
        >>> layer(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 8, 8])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with elements dropped in training mode."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Set whole channels to zero at random in training mode.

    Each channel of each sample is dropped with probability `p`. The others are divided by `1 - p`. Evaluation
    mode changes nothing.

    Args:
        p: Probability of dropping, in `[0, 1]`.
        inplace: Whether to write the result to the input.

    Shape:
        Input `(n, c, d, h, w)` or `(c, d, h, w)`; output of the same shape.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Dropout3d(p=0.2)
        >>> layer(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 8, 8, 8])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with elements dropped in training mode."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Set elements to the negative limit of `SELU` at random in training mode.

    The result is scaled and shifted, so that mean 0 and variance 1 stay. Evaluation mode changes nothing.

    Args:
        p: Probability of dropping, in `[0, 1]`.
        inplace: Kept, but not used.

    Shape:
        Input `(*)`; output of the same shape.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.AlphaDropout(p=0.2)
        >>> layer(torch.randn(20, 16)).shape
        torch.Size([20, 16])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with elements dropped in training mode."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """Set whole channels to the negative limit of `SELU` at random in training mode.

    The result is scaled and shifted, so that mean 0 and variance 1 stay. Evaluation mode changes nothing.

    Args:
        p: Probability of dropping, in `[0, 1]`.
        inplace: Kept, but not used.

    Shape:
        Input `(n, c, *)`; output of the same shape.

    Raises:
        ValueError: `p` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.FeatureAlphaDropout(p=0.2)
        >>> layer(torch.randn(20, 16, 4)).shape
        torch.Size([20, 16, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with elements dropped in training mode."""
        return F.feature_alpha_dropout(input, self.p, self.training)
