"""Layer, group, root-mean-square and local response normalisation."""

from __future__ import annotations

import numbers
from collections.abc import Sequence

import pytpu as torch
from pytpu import Tensor
from pytpu.nn import functional as F, init
from pytpu.nn.parameter import Parameter

from .module import Module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from pytpu.types import Device


def _make_affine(module, affine, bias, shape, device, dtype):
    """Register the scale and the shift of a normalisation. Those not asked for are `None`."""
    for name, wanted in (("weight", affine), ("bias", affine and bias)):
        parameter = Parameter(torch.empty(shape, device=device, dtype=dtype)) if wanted else None
        module.register_parameter(name, parameter)


def _reset_affine(module):
    init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class LayerNorm(Module):
    """Normalise each sample over its trailing dimensions.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance.

    Args:
        normalized_shape: Sizes of the trailing dimensions to normalise over. An integer stands for the last
            dimension.
        eps: Number that is added to the variance.
        elementwise_affine: Whether to learn a scale `weight`, and a shift `bias` if `bias` is set.
        bias: Whether to learn a shift.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `normalized_shape`, initially 1, or `None`.
        bias: Parameter `normalized_shape`, initially 0, or `None`.

    Shape:
        Input `(*, *normalized_shape)`; output of the same shape.

    Raises:
        RuntimeError: The input does not end in `normalized_shape`.

    Example:
        >>> import pytpu as torch
        >>> y = torch.nn.LayerNorm(4)(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
        >>> y.detach()
        tensor([[-1.3416, -0.4472,  0.4472,  1.3416]])
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes: Any = (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else normalized_shape
        self.normalized_shape: tuple[int, ...] = tuple(sizes)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        _make_affine(self, elementwise_affine, bias, self.normalized_shape, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to 1 and the shift to 0."""
        if self.elementwise_affine:
            _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised `input`."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide each sample by the root mean square of its trailing dimensions.

    `y = x / sqrt(mean(x^2) + eps) * weight`.

    Args:
        normalized_shape: Sizes of the trailing dimensions to normalise over. An integer stands for the last
            dimension.
        eps: Number that is added to the mean. `None` means the machine epsilon of the dtype of the input.
        elementwise_affine: Whether to learn a scale `weight`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `normalized_shape`, initially 1, or `None`.

    Shape:
        Input `(*, *normalized_shape)`; output of the same shape.

    Raises:
        RuntimeError: The input does not end in `normalized_shape`.

    Example:
        >>> import pytpu as torch
        >>> y = torch.nn.RMSNorm(2)(torch.tensor([[1.0, 7.0]]))
        >>> y.detach()
        tensor([[0.2000, 1.4000]])
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes: Any = (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else normalized_shape
        self.normalized_shape: tuple[int, ...] = tuple(sizes)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to 1."""
        if self.elementwise_affine and self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised `x`."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalise groups of channels of each sample.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`, with mean and biased variance over a group of channels
    and all their places.

    Args:
        num_groups: Number of groups. It divides `num_channels`.
        num_channels: Number of channels `c`.
        eps: Number that is added to the variance.
        affine: Whether to learn a scale `weight` and a shift `bias` for each channel.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
        bias: Whether `affine` includes the shift.

    Attributes:
        weight: Parameter `(num_channels,)`, initially 1, or `None`.
        bias: Parameter `(num_channels,)`, initially 0, or `None`.

    Shape:
        Input `(n, c, *)`; output of the same shape.

    Raises:
        ValueError: `num_groups` does not divide `num_channels`, or the batch has only one value for each group.
        RuntimeError: The input has fewer than two dimensions.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.GroupNorm(3, 6)(torch.randn(20, 6, 10, 10)).shape
        torch.Size([20, 6, 10, 10])
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        _make_affine(self, affine, bias, num_channels, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to 1 and the shift to 0."""
        if self.affine:
            _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised `input`."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divide each channel by a power of the mean square of its neighbours.

    `y_c = x_c / (k + alpha / size * sum_i x_i^2)^beta`, where `i` runs over `size` channels around `c`.
    Channels outside are zero.

    Args:
        size: Number of neighbouring channels.
        alpha: Factor of the mean square.
        beta: Exponent.
        k: Number that is added.

    Shape:
        Input `(n, c, *)` with at least one spatial dimension; output of the same shape.

    Raises:
        ValueError: The input has fewer than three dimensions.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.LocalResponseNorm(2)(torch.randn(32, 5, 24, 24)).shape
        torch.Size([32, 5, 24, 24])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised `input`."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """Divide each channel by a power of the mean square of its neighbours. An old name of `LocalResponseNorm`.

    Args:
        size: Number of neighbouring channels.
        alpha: Factor of the mean square.
        beta: Exponent.
        k: Number that is added.

    Shape:
        Input `(n, c, h, w)`; output of the same shape.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)
