"""Layers that rearrange or resize, and distances."""

from __future__ import annotations

from pytpu import _C, Tensor
from pytpu.nn import functional as F

from .module import Module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pytpu.nn.common_types import _ratio_2_t, _ratio_any_t, _size_2_t, _size_any_t


_ops = _C._ops


class Flatten(Module):
    """Join consecutive dimensions into one.

    Args:
        start_dim: First dimension to join.
        end_dim: Last dimension to join.

    Shape:
        Input `(*, s_start, ..., s_end, *)`; output `(*, s_start * ... * s_end, *)`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Flatten()(torch.randn(32, 1, 5, 5)).shape
        torch.Size([32, 25])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with the dimensions joined."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split one dimension into several.

    Args:
        dim: Dimension to split.
        unflattened_size: Sizes of the new dimensions. One of them may be -1, which follows from the others.

    Shape:
        Input `(*, s, *)`; output `(*, *unflattened_size, *)`.

    Raises:
        TypeError: `dim` is a name, or `unflattened_size` is not a tuple or list of integers.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Unflatten(1, (2, 5, 5))(torch.randn(2, 50)).shape
        torch.Size([2, 2, 5, 5])
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...] | list[int]) -> None:
        super().__init__()
        if isinstance(dim, str):
            raise TypeError("Unflatten: named dimensions are not supported; pass the position of the dimension")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos "
                    f"{i}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with the dimension split."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Fold(Module):
    """Add the columns of a matrix as blocks into an image.

    Overlapping elements are summed. It is the transpose of `Unfold`.

    Args:
        output_size: Height `h` and width `w` of the image. An integer stands for both.
        kernel_size: Height and width of a block. An integer stands for both.
        dilation: Distance between neighbouring elements of a block. An integer stands for both dimensions.
        padding: Zeros to add at both ends of each spatial dimension of the image. An integer stands for both
            dimensions.
        stride: Distance between neighbouring blocks. An integer stands for both dimensions.

    Shape:
        Input `(n, c * prod(kernel_size), l)` or without `n`; output `(n, c, h, w)` or `(c, h, w)`.
        `l` is the product over both dimensions of `floor((size + 2 * padding - dilation * (kernel_size - 1) -
            1) / stride) + 1`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Fold((4, 5), (2, 2))(torch.randn(1, 3 * 2 * 2, 12)).shape
        torch.Size([1, 3, 4, 5])
    """

    def __init__(
        self,
        output_size: _size_any_t,
        kernel_size: _size_any_t,
        dilation: _size_any_t = 1,
        padding: _size_any_t = 0,
        stride: _size_any_t = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the image of the columns `input`."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """Return the blocks of an image that a window slides over, as columns.

    Args:
        kernel_size: Height and width of a block. An integer stands for both.
        dilation: Distance between neighbouring elements of a block. An integer stands for both dimensions.
        padding: Zeros to add at both ends of each spatial dimension of the image. An integer stands for both
            dimensions.
        stride: Distance between neighbouring blocks. An integer stands for both dimensions.

    Shape:
        Input `(n, c, h, w)` or `(c, h, w)`; output `(n, c * prod(kernel_size), l)` or without `n`.
        `l` is the product over both dimensions of `floor((size + 2 * padding - dilation * (kernel_size - 1) -
            1) / stride) + 1`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.Unfold((2, 3))(torch.randn(2, 5, 3, 4)).shape
        torch.Size([2, 30, 4])
    """

    def __init__(
        self, kernel_size: _size_any_t, dilation: _size_any_t = 1, padding: _size_any_t = 0, stride: _size_any_t = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the columns of the image `input`."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class ChannelShuffle(Module):
    """Interleave groups of channels.

    Channel `i * (c / groups) + j` becomes channel `j * groups + i`.

    Args:
        groups: Number of groups. It divides `c`.

    Shape:
        Input `(n, c, *)`; output of the same shape.

    Example:
        >>> import pytpu as torch
        >>> x = torch.arange(4.0).reshape(1, 4, 1)
        >>> torch.nn.ChannelShuffle(2)(x).flatten()
        tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with its channels interleaved."""
        return _ops.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"groups={self.groups}"


class PixelShuffle(Module):
    """Move blocks of channels into the spatial dimensions.

    Args:
        upscale_factor: Factor `r` by which height and width grow.

    Shape:
        Input `(*, c * r^2, h, w)`; output `(*, c, h * r, w * r)`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.PixelShuffle(3)(torch.randn(1, 9, 4, 4)).shape
        torch.Size([1, 1, 12, 12])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with channels moved into space."""
        return _ops.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Move blocks of the spatial dimensions into channels. The inverse of `PixelShuffle`.

    Args:
        downscale_factor: Factor `r` by which height and width shrink.

    Shape:
        Input `(*, c, h * r, w * r)`; output `(*, c * r^2, h, w)`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.PixelUnshuffle(3)(torch.randn(1, 1, 12, 12)).shape
        torch.Size([1, 9, 4, 4])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` with space moved into channels."""
        return _ops.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        return f"downscale_factor={self.downscale_factor}"


class Upsample(Module):
    """Resize the spatial dimensions.

    Give either `size` or `scale_factor`.

    Args:
        size: Spatial sizes of the output. An integer stands for all of them.
        scale_factor: Factors of the spatial sizes. A number stands for all of them.
        mode: `"nearest"`, `"nearest-exact"`, `"area"`, `"linear"` (3D inputs), `"bilinear"` and `"bicubic"`
            (4D) or `"trilinear"` (5D).
        align_corners: Whether the centres of the corner elements of input and output coincide. Only for the
            linear and cubic modes.
        recompute_scale_factor: Whether to compute the scale again from the rounded sizes.

    Shape:
        Input `(n, c, *)` with 1 to 3 spatial dimensions; output `(n, c, *size)`, or sizes
            `floor(size * scale_factor)`.

    Raises:
        ValueError: Both or none of `size` and `scale_factor` are given, or they have another length.
        NotImplementedError: `mode` is not for the number of dimensions.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([[[1.0, 2.0]]])
        >>> torch.nn.Upsample(scale_factor=2)(x)
        tensor([[[1., 1., 2., 2.]]])
    """

    def __init__(
        self,
        size: _size_any_t | None = None,
        scale_factor: _ratio_any_t | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: float | tuple[float, ...] | None
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` in the new size."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Return the settings for the repr."""
        how = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{how}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resize images to the values of the nearest elements.

    Args:
        size: Spatial sizes of the output. An integer stands for all of them.
        scale_factor: Factors of the spatial sizes. A number stands for all of them.

    Shape:
        Input `(n, c, h, w)`; output `(n, c, *size)`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.UpsamplingNearest2d(scale_factor=2)(torch.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1., 1., 2., 2.],
                  [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: _size_2_t | None = None, scale_factor: _ratio_2_t | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resize images by bilinear interpolation with aligned corners.

    Args:
        size: Spatial sizes of the output. An integer stands for all of them.
        scale_factor: Factors of the spatial sizes. A number stands for all of them.

    Shape:
        Input `(n, c, h, w)`; output `(n, c, *size)`.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.UpsamplingBilinear2d(size=(1, 3))(torch.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(self, size: _size_2_t | None = None, scale_factor: _ratio_2_t | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PairwiseDistance(Module):
    """Return the distance of pairs of vectors.

    `d = (sum_i |x1_i - x2_i + eps|^p)^(1 / p)`.

    Args:
        p: Exponent of the norm.
        eps: Number that is added to each difference.
        keepdim: Whether to keep the last dimension, with size 1.

    Shape:
        Inputs `(*, d)` that broadcast; output `(*)`, or `(*, 1)` if `keepdim`.

    Example:
        >>> import pytpu as torch
        >>> x, y = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]])
        >>> torch.nn.PairwiseDistance()(x, y)
        tensor([5.0000])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distances of the vectors `x1` and `x2`."""
        return _ops.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Return the cosine of the angle between pairs of vectors.

    `cos = sum_i x1_i * x2_i / (max(|x1|, eps) * max(|x2|, eps))`.

    Args:
        dim: Dimension of the vectors.
        eps: Lower bound of each norm.

    Shape:
        Inputs `(*, d, *)` that broadcast; output the same without `dim`.

    Example:
        >>> import pytpu as torch
        >>> x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> torch.nn.CosineSimilarity()(x, y)
        tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the cosines of the vectors `x1` and `x2`."""
        return _ops.cosine_similarity(x1, x2, self.dim, self.eps)
