"""Kernels of torchvision's operators, whose C++ extension cannot be loaded. They are registered when it is imported.

Source: `torchvision::nms` and `torchvision::roi_align`; He et al., Mask R-CNN, 2017.
"""

import pytpu as torch

from .library import register_fake, register_kernel

# Elements of one intermediate tensor of `roi_align`. Regions are taken in parts that stay below it.
_PART = 1 << 24
_C_NAMES = {
    torch.float16: "Half", torch.bfloat16: "BFloat16", torch.int8: "Char", torch.uint8: "Byte", torch.int16: "Short",
    torch.int32: "Int", torch.int64: "Long", torch.bool: "Bool",
}  # fmt: skip


def _widen(tensor):
    """Return what autocast gives to these operators: `float32` for narrower floats."""
    return tensor.float() if tensor.is_floating_point() and tensor.dtype != torch.float64 else tensor


def nms(dets, scores, iou_threshold):
    """Return the indices of the boxes that are kept, by decreasing score.

    A box is dropped if its intersection over union with a kept box of a higher score is above `iou_threshold`.

    Args:
        dets: boxes `(n, 4)` as `x1, y1, x2, y2`, of `float32` or `float64`.
        scores: `(n,)`, of the same dtype. Boxes of equal scores keep their order.
        iou_threshold: the largest overlap that is allowed.

    Raises:
        RuntimeError: If a shape or a dtype does not fit.
    """
    import numpy

    if dets.dim() != 2:
        raise RuntimeError(f"nms: boxes should be a 2d tensor, got {dets.dim()}D")
    if dets.size(1) != 4:
        raise RuntimeError(f"nms: boxes should have 4 elements in dimension 1, got {dets.size(1)}")
    if scores.dim() != 1:
        raise RuntimeError(f"nms: scores should be a 1d tensor, got {scores.dim()}D")
    if dets.size(0) != scores.size(0):
        raise RuntimeError(
            "nms: boxes and scores should have same number of elements in dimension 0, got "
            f"{dets.size(0)} and {scores.size(0)}"
        )
    if torch.is_autocast_enabled(dets.device.type):
        dets, scores = _widen(dets), _widen(scores)
    if dets.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"\"nms_kernel\" not implemented for '{_C_NAMES.get(dets.dtype, dets.dtype)}'")
    if dets.dtype != scores.dtype:
        raise RuntimeError("nms: dets should have the same type as scores")
    order = scores.argsort(descending=True, stable=True)
    # The number of results depends on the values, so the host computes them.
    x1, y1, x2, y2 = numpy.ascontiguousarray(dets.detach()[order].cpu().numpy().T)
    areas = (x2 - x1) * (y2 - y1)
    left, kept = numpy.arange(len(areas)), []
    with numpy.errstate(invalid="ignore", divide="ignore", over="ignore"):
        while len(left):
            first, left = left[0], left[1:]
            kept.append(first)
            w = numpy.minimum(x2[first], x2[left]) - numpy.maximum(x1[first], x1[left])
            h = numpy.minimum(y2[first], y2[left]) - numpy.maximum(y1[first], y1[left])
            common = numpy.maximum(w, 0) * numpy.maximum(h, 0)
            # An overlap that is NaN drops no box.
            left = left[~(common / (areas[first] + areas[left] - common) > iou_threshold)]
    return order[torch.tensor(kept, dtype=torch.int64, device=dets.device)]


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """Return the averages of `input` over the bins of regions, `(k, c, pooled_height, pooled_width)`.

    Each bin is the mean of bilinear samples on a grid. Samples outside of the image by more than one pixel are 0.

    Args:
        input: images `(n, c, h, w)`.
        rois: regions `(k, 5)`: the index of an image, then `x1, y1, x2, y2`. They have no gradient.
        spatial_scale: factor from coordinates of `rois` to those of `input`.
        pooled_height, pooled_width: numbers of bins.
        sampling_ratio: samples of a bin in each direction. If it is not positive, their number is the size of the bin
            in pixels, rounded up.
        aligned: whether pixels have their centres at half coordinates.

    Raises:
        RuntimeError: If a shape or a dtype does not fit, or there is no image of an index.
    """
    if rois.dim() != 2 or rois.size(1) != 5:
        raise RuntimeError("roi_align: rois must have shape as Tensor[K, 5]")
    given = input.dtype
    if torch.is_autocast_enabled(input.device.type):
        input, rois = _widen(input), _widen(rois)
    if input.dtype != rois.dtype:
        raise RuntimeError("roi_align: input should have the same type as rois")
    if input.dtype not in (torch.float32, torch.float64, torch.float16):
        raise RuntimeError(
            f"\"roi_align_forward_kernel\" not implemented for '{_C_NAMES.get(input.dtype, input.dtype)}'"
        )
    if input.dtype == torch.float16:
        input, rois = input.float(), rois.float()
    if input.dim() != 4:
        raise RuntimeError(f"roi_align: input should be a 4d tensor, got {input.dim()}D")
    n, c, height, width = input.shape
    count = rois.size(0)
    if count == 0:
        return input.new_zeros((0, c, pooled_height, pooled_width), dtype=given)
    rois = rois.detach()
    # Regions are few: their sizes on the host say how many samples there are, and which parts fit into memory.
    on_host = rois.cpu()
    images = on_host[:, 0].to(torch.int64)
    if images.min().item() < 0 or images.max().item() >= n:
        raise RuntimeError("rois batch index must be in [0, batch_size)")
    corners = on_host[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)
    sizes = corners[:, 2:] - corners[:, :2]
    if not aligned:
        sizes = sizes.clamp(min=1.0)
    bins = sizes / torch.tensor([pooled_width, pooled_height], dtype=sizes.dtype)
    if sampling_ratio > 0:
        grids = {(sampling_ratio, sampling_ratio): list(range(count))}
    else:
        grids = {}
        for k, (gw, gh) in enumerate(bins.ceil().clamp(min=0).to(torch.int64).tolist()):
            grids.setdefault((gh, gw), []).append(k)
    # One row for each pixel, so that a sample reads contiguous channels.
    pixels = input.permute(0, 2, 3, 1).reshape(n * height * width, c)
    parts, places = [], []
    for (gh, gw), members in grids.items():
        size = max(1, _PART // max(1, c * pooled_height * pooled_width * gh * gw))
        for start in range(0, len(members), size):
            part = torch.tensor(members[start : start + size])
            places.append(part)
            if gh == 0 or gw == 0:
                parts.append(input.new_zeros((len(part), c, pooled_height, pooled_width)))
                continue
            ys = _samples(corners[part, 1], bins[part, 1], pooled_height, gh, height)
            xs = _samples(corners[part, 0], bins[part, 0], pooled_width, gw, width)
            sums = _sums(pixels, images[part] * (height * width), ys, xs, width)
            sums = sums.reshape(len(part), pooled_height, gh, pooled_width, gw, c).sum((2, 4))
            parts.append((sums / (gh * gw)).permute(0, 3, 1, 2))
    if len(parts) == 1:
        return parts[0].to(given)
    order = torch.cat(places).argsort()
    return torch.cat(parts)[order.to(input.device)].to(given)


def _samples(start, bin_size, bins, grid, size):
    """Return the neighbours of samples along one dimension, and their weights: two pairs of `(k, bins * grid)`."""
    place = torch.arange(bins * grid)
    steps = (place // grid).to(start.dtype), (place % grid).to(start.dtype) + 0.5
    at = start[:, None] + steps[0] * bin_size[:, None] + steps[1] * (bin_size / grid)[:, None]
    is_inside = (at >= -1.0) & (at <= size)
    at = at.clamp(min=0.0)
    low = at.to(torch.int64).clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    weight = torch.where(low >= size - 1, torch.zeros_like(at), at - low)
    low_weight = torch.where(is_inside, 1.0 - weight, torch.zeros_like(at))
    return (low, low_weight), (high, torch.where(is_inside, weight, torch.zeros_like(at)))


def _sums(pixels, base, ys, xs, width):
    """Return the samples, each the weighted sum of four pixels, as `(samples, c)`."""
    total = None
    for y, wy in ys:
        for x, wx in xs:
            rows = (base[:, None, None] + y[:, :, None] * width + x[:, None, :]).reshape(-1)
            weights = (wy[:, :, None] * wx[:, None, :]).reshape(-1, 1)
            part = pixels.index_select(0, rows.to(pixels.device)) * weights.to(pixels.device)
            total = part if total is None else total + part
    return total


def _shape_of_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return input.new_empty((rois.size(0), input.size(1), pooled_height, pooled_width))


def register():
    """Register the kernels for all devices."""
    register_kernel("torchvision::nms", None, nms)
    register_kernel("torchvision::roi_align", None, roi_align)
    register_fake("torchvision::roi_align", _shape_of_roi_align)
    register_kernel("torchvision::_cuda_version", None, lambda: -1)
