"""Padding, sliding windows and resampling."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from pytpu import _C, Tensor

from .adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .pooling import _tuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


_ops = _C._ops


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Add elements at the ends of the trailing dimensions.

    Args:
        input: Tensor `(*)`.
        pad: Numbers of elements in pairs, the last dimension first: `(left, right, top, bottom, ...)`. Negative
            numbers remove elements.
        mode: `"constant"`, or `"reflect"`, `"replicate"` or `"circular"` for up to three spatial dimensions.
        value: Value for `"constant"`. `None` means 0.

    Returns:
        The padded tensor.

    Raises:
        RuntimeError: `pad` does not fit `input`, or `mode` does not take a value.
        NotImplementedError: `mode` is unknown.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.pad(torch.tensor([1.0, 2.0]), (1, 2), value=9.0)
        tensor([9., 1., 2., 9., 9.])
    """
    return _ops.pad(input, pad, mode, value)


def unfold(
    input: Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Return the blocks of an image that a window slides over, as columns.

    Args:
        input: Image `(n, c, h, w)` or `(c, h, w)`.
        kernel_size: Height and width of a block. An integer stands for both.
        dilation: Distance between neighbouring elements of a block. An integer stands for both dimensions.
        padding: Zeros to add at both ends of each spatial dimension of the image. An integer stands for both
            dimensions.
        stride: Distance between neighbouring blocks. An integer stands for both dimensions.

    Shape:
        Output `(n, c * prod(kernel_size), l)` or without `n`.
        `l` is the product over both dimensions of `floor((size + 2 * padding - dilation * (kernel_size - 1) -
            1) / stride) + 1`.

    Returns:
        The columns.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.unfold(torch.randn(2, 5, 3, 4), (2, 3)).shape
        torch.Size([2, 30, 4])
    """
    return _ops.im2col(input, _tuple(kernel_size, 2), _tuple(dilation, 2), _tuple(padding, 2), _tuple(stride, 2))


def fold(
    input: Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Add the columns of a matrix as blocks into an image.

    Overlapping elements are summed. It is the transpose of `unfold`.

    Args:
        input: Columns `(n, c * prod(kernel_size), l)` or without `n`.
        output_size: Height `h` and width `w` of the image. An integer stands for both.
        kernel_size: Height and width of a block. An integer stands for both.
        dilation: Distance between neighbouring elements of a block. An integer stands for both dimensions.
        padding: Zeros to add at both ends of each spatial dimension of the image. An integer stands for both
            dimensions.
        stride: Distance between neighbouring blocks. An integer stands for both dimensions.

    Shape:
        Output `(n, c, h, w)` or `(c, h, w)`.
        `l` is the product over both dimensions of `floor((size + 2 * padding - dilation * (kernel_size - 1) -
            1) / stride) + 1`.

    Returns:
        The image.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.fold(torch.randn(1, 3 * 2 * 2, 12), (4, 5), (2, 2)).shape
        torch.Size([1, 3, 4, 5])
    """
    return _ops.col2im(
        input,
        _tuple(output_size, 2),
        _tuple(kernel_size, 2),
        _tuple(dilation, 2),
        _tuple(padding, 2),
        _tuple(stride, 2),
    )


_INTERPOLATE = {
    (3, "nearest"): "upsample_nearest1d",
    (4, "nearest"): "upsample_nearest2d",
    (5, "nearest"): "upsample_nearest3d",
    (3, "nearest-exact"): "_upsample_nearest_exact1d",
    (4, "nearest-exact"): "_upsample_nearest_exact2d",
    (5, "nearest-exact"): "_upsample_nearest_exact3d",
    (3, "linear"): "upsample_linear1d",
    (4, "bilinear"): "upsample_bilinear2d",
    (5, "trilinear"): "upsample_trilinear3d",
    (4, "bicubic"): "upsample_bicubic2d",
    (4, "lanczos"): "_upsample_lanczos2d",
}


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize the spatial dimensions.

    Give either `size` or `scale_factor`.

    Args:
        input: Tensor `(n, c, *)`.
        size: Spatial sizes of the output. An integer stands for all of them.
        scale_factor: Factors of the spatial sizes. A number stands for all of them.
        mode: `"nearest"`, `"nearest-exact"`, `"area"`, `"linear"` (3D inputs), `"bilinear"`, `"bicubic"` and
            `"lanczos"` (4D) or `"trilinear"` (5D). `"lanczos"` needs `antialias`.
        align_corners: Whether the centres of the corner elements of input and output coincide. Only for the
            linear and cubic modes.
        recompute_scale_factor: Whether to compute the scale again from the rounded sizes.
        antialias: Whether to filter when the output is smaller. Only for `"bilinear"`, `"bicubic"` and
            `"lanczos"`.

    Returns:
        Tensor `(n, c, *size)`, or of sizes `floor(size * scale_factor)`.

    Raises:
        ValueError: Both or none of `size` and `scale_factor` are given, they have another length, or an option
            is not for `mode`.
        NotImplementedError: `mode` is not for the number of dimensions.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.interpolate(torch.tensor([[[1.0, 2.0]]]), scale_factor=2)
        tensor([[[1., 1., 2., 2.]]])
        >>> F.interpolate(torch.tensor([[[1.0, 2.0]]]), size=3, mode="linear", align_corners=True)
        tensor([[[1.0000, 1.5000, 2.0000]]])
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    n = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    output_size: list[Any] | None = None
    scale_factors: list[Any] | None = None
    if size is not None:
        if isinstance(size, (list, tuple)):
            if len(size) != n:
                raise ValueError(
                    "Input and output must have the same number of spatial dimensions, but got input with spatial "
                    f"dimensions of {list(input.shape[2:])} and output size of {size}. Please provide input tensor in "
                    "(N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."
                )
            output_size = list(size)
        else:
            output_size = [size] * n
    else:
        if isinstance(scale_factor, (list, tuple)):
            if len(scale_factor) != n:
                raise ValueError(
                    "Input and scale_factor must have the same number of spatial dimensions, but got input with "
                    f"spatial dimensions of {list(input.shape[2:])} and scale_factor of shape {scale_factor}. Please "
                    "provide input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) "
                    "format."
                )
            scale_factors = list(scale_factor)
        else:
            scale_factors = [scale_factor] * n
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if mode == "area" and output_size is None:
        recompute_scale_factor = True
    if recompute_scale_factor and scale_factors is not None:
        output_size = [math.floor(float(input.size(i + 2)) * scale_factors[i]) for i in range(n)]
        scale_factors = None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "area" and n in (1, 2, 3):
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[n - 1](input, output_size)
    name = _INTERPOLATE.get((input.dim(), mode))
    if name is None:
        expected = {"linear": "3D", "bilinear": "4D", "trilinear": "5D"}
        if input.dim() in (3, 4, 5) and mode in expected:
            raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {expected[mode]} input")
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported "
            f"(got {input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | "
            f"area | nearest-exact (got {mode})"
        )
    if mode == "lanczos":
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    if antialias:
        name = f"_{name.lstrip('_')}_aa"
    corners = () if mode in ("nearest", "nearest-exact") else (align_corners,)
    return getattr(_ops, name)(input, output_size, *corners, scale_factors)


def _older(name):
    warnings.warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=4)


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Resize the spatial dimensions. A deprecated name of `interpolate`.

    Args:
        input: Tensor `(n, c, *)`.
        size: Spatial sizes of the output. An integer stands for all of them.
        scale_factor: Factors of the spatial sizes. A number stands for all of them.
        mode: As for `interpolate`.
        align_corners: Whether the centres of the corner elements of input and output coincide. Only for the
            linear and cubic modes.

    Returns:
        Tensor `(n, c, *size)`, or of sizes `floor(size * scale_factor)`.
    """
    _older("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Resize to the values of the nearest elements. Deprecated; use `interpolate`.

    Args:
        input: Tensor `(n, c, *)`.
        size: Spatial sizes of the output. An integer stands for all of them.
        scale_factor: Factors of the spatial sizes. A number stands for all of them.

    Returns:
        Tensor `(n, c, *size)`, or of sizes `floor(size * scale_factor)`.
    """
    _older("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Resize images by bilinear interpolation with aligned corners. Deprecated; use `interpolate`.

    Args:
        input: Tensor `(n, c, *)`.
        size: Spatial sizes of the output. An integer stands for all of them.
        scale_factor: Factors of the spatial sizes. A number stands for all of them.

    Returns:
        Tensor `(n, c, *size)`, or of sizes `floor(size * scale_factor)`.
    """
    _older("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _align_corners(given):
    if given is not None:
        return given
    warnings.warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
        "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
        "details.",
        stacklevel=4,
    )
    return False


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Sample images at the points of a grid.

    Coordinates -1 and 1 are the ends of a dimension.

    Args:
        input: Images `(n, c, h, w)` or volumes `(n, c, d, h, w)`.
        grid: Points `(n, h_out, w_out, 2)` as `(x, y)`, or `(n, d_out, h_out, w_out, 3)` as `(x, y, z)`.
        mode: `"bilinear"`, `"nearest"` or, for images, `"bicubic"`.
        padding_mode: Values outside: `"zeros"`, `"border"` or `"reflection"`.
        align_corners: Whether -1 and 1 are the centres of the corner elements instead of their edges. `None`
            means false, and warns.

    Returns:
        Tensor `(n, c, h_out, w_out)` or `(n, c, d_out, h_out, w_out)`.

    Raises:
        ValueError: `mode` or `padding_mode` is unknown.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> F.grid_sample(image, torch.zeros(1, 1, 1, 2), align_corners=False)
        tensor([[[[2.5000]]]])
    """
    modes = {"bilinear": 0, "nearest": 1, "bicubic": 2}
    paddings = {"zeros": 0, "border": 1, "reflection": 2}
    if mode not in modes:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in paddings:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    align_corners = _align_corners(align_corners)
    return _ops.grid_sampler(input, grid, modes[mode], paddings[padding_mode], align_corners)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the points at which affine maps sample an image, for `grid_sample`.

    Args:
        theta: Maps `(n, 2, 3)` or `(n, 3, 4)`, floating point.
        size: Size `(n, c, h, w)` or `(n, c, d, h, w)` of the output images.
        align_corners: Whether -1 and 1 are the centres of the corner elements instead of their edges. `None`
            means false, and warns.

    Returns:
        Grid `(n, h, w, 2)` or `(n, d, h, w, 3)`.

    Raises:
        ValueError: The dtype or shape of `theta` does not fit, or a size is not positive.
        NotImplementedError: `size` has other than 4 or 5 elements.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> same = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> F.affine_grid(same, (1, 1, 1, 2), align_corners=False)
        tensor([[[[-0.5000,  0.0000],
                  [ 0.5000,  0.0000]]]])
    """
    align_corners = _align_corners(align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    want = {4: (2, 3), 5: (3, 4)}.get(len(size))
    if want is None:
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != want:
        raise ValueError(
            f"Expected a batch of {want[0]}D affine matrices of shape Nx{want[0]}x{want[1]} for size {size}. "
            f"Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return _ops.affine_grid_generator(theta, list(size), align_corners)
