"""Communication hooks that send gradients as 8-bit integers."""

from __future__ import annotations

import pytpu as torch
from pytpu import distributed as dist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....futures import Future
    from ... import GradBucket, ProcessGroup

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]


def _quantized_mean(group: ProcessGroup | None, rows: torch.Tensor) -> torch.Tensor:
    """Average rows of numbers over the ranks. Each rank sends its rows as `uint8`, with a scale and a start each."""
    size = dist.get_world_size(group)
    low, high = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)
    # A row of equal numbers has no width.
    step = ((high - low) / 255).clamp(min=torch.finfo(rows.dtype).tiny)
    codes = ((rows - low) / step).round().clamp(0, 255).to(torch.uint8)
    scales = torch.cat([step, low], 1)
    all_codes = torch.empty((size * rows.shape[0], rows.shape[1]), dtype=torch.uint8, device=rows.device)
    all_scales = torch.empty((size * rows.shape[0], 2), dtype=rows.dtype, device=rows.device)
    dist.all_gather_into_tensor(all_scales, scales, group=group)
    dist.all_gather_into_tensor(all_codes, codes, group=group)
    values = all_codes.to(rows.dtype) * all_scales[:, :1] + all_scales[:, 1:]
    return values.view(size, *rows.shape).mean(0)


def _done(value: torch.Tensor) -> Future:
    future: Future = torch.futures.Future()
    future.set_result(value)
    return future


def quantization_pertensor_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Average gradients that each rank sends as `uint8`, with one scale for the bucket.

    Args:
        process_group: the group. `None` means the default one.
        bucket: the gradients.

    Returns:
        A future of the averaged buffer.
    """
    return _done(_quantized_mean(process_group, bucket.buffer().view(1, -1)).view(-1))


def quantization_perchannel_hook(
    process_group: ProcessGroup | None, bucket: GradBucket, bucket_size: int = 512
) -> Future:
    """Average gradients that each rank sends as `uint8`, with a scale for each `bucket_size` numbers.

    Args:
        process_group: the group. `None` means the default one.
        bucket: the gradients.
        bucket_size: the numbers that share a scale.

    Returns:
        A future of the averaged buffer.
    """
    buffer = bucket.buffer()
    padded = torch.nn.functional.pad(buffer, (0, -buffer.numel() % bucket_size))
    return _done(_quantized_mean(process_group, padded.view(-1, bucket_size)).view(-1)[: buffer.numel()])
