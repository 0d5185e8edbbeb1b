"""Communication hooks that do not communicate."""

from __future__ import annotations

import pytpu as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ....futures import Future
    from ... import GradBucket

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future:
    """Leave the gradients as they are, to measure a step without communication.

    Args:
        _: not used.
        bucket: the gradients.

    Returns:
        A future of the buffer.
    """
    future: Future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
