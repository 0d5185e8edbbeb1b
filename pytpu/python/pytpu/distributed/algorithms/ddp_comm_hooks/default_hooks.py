"""Communication hooks that average gradients, possibly in 16 bits."""

from __future__ import annotations

import pytpu as torch
from pytpu import distributed as dist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ....futures import Future
    from ... import GradBucket, ProcessGroup

    Hook = Callable[[Any, GradBucket], Future]

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def _mean(group: ProcessGroup | None, buffer: torch.Tensor) -> Future:
    """Average a buffer over the ranks of a group, in place, and return a future of it."""
    group = dist.group.WORLD if group is None else group
    future = dist.all_reduce(buffer.div_(dist.get_world_size(group)), group=group, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Average the gradients, as a model does without a hook.

    Args:
        process_group: the group. `None` means the default one.
        bucket: the gradients.

    Returns:
        A future of the averaged buffer.
    """
    return _mean(process_group, bucket.buffer())


def _in_16_bits(group: Any, bucket: GradBucket, dtype: torch.dtype) -> Future:
    buffer = bucket.buffer()
    return _mean(group, buffer.to(dtype)).then(lambda done: buffer.copy_(done.value()))


def fp16_compress_hook(state: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Average the gradients in `float16`, which halves the traffic.

    Args:
        state: the group. `None` means the default one.
        bucket: the gradients.

    Returns:
        A future of the averaged buffer, in the dtype of the gradients.
    """
    return _in_16_bits(state, bucket, torch.float16)


def bf16_compress_hook(state: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Average the gradients in `bfloat16`, which halves the traffic.

    Args:
        state: the group. `None` means the default one.
        bucket: the gradients.

    Returns:
        A future of the averaged buffer, in the dtype of the gradients.
    """
    return _in_16_bits(state, bucket, torch.bfloat16)


def _wrap(hook: Hook, dtype: torch.dtype) -> Hook:
    def compress(state: Any, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda done: buffer.copy_(done.value()))

    return compress


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that gives gradients in `float16` to another hook.

    Args:
        hook: the other hook, such as `powerSGD_hook`.
    """
    return _wrap(hook, torch.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that gives gradients in `bfloat16` to another hook.

    Args:
        hook: the other hook, such as `powerSGD_hook`.
    """
    return _wrap(hook, torch.bfloat16)
