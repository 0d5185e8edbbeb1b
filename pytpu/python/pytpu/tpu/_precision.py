"""Precision of `float32` products within a block."""

from __future__ import annotations

import contextlib
import enum

from ..backends import _precision as settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Precision(enum.Enum):
    """Precisions of `float32` products on a TPU: one, three or six passes of `bfloat16`."""

    DEFAULT = "medium"
    HIGH = "high"
    HIGHEST = "highest"


@contextlib.contextmanager
def precision(mode: Precision) -> Iterator[None]:
    """Return a context manager that sets the precision of `float32` matrix products and convolutions.

    The setting holds for the ops that this thread calls in the block, forward and backward. It does not end a program,
    and comes before `torch.set_float32_matmul_precision`. XLA:CPU always computes in `float32`.

    Args:
        mode: The precision.

    Raises:
        ValueError: If `mode` is not a `torch.tpu.Precision`.

    Example:
        >>> import pytpu as torch
        >>> with torch.tpu.precision(torch.tpu.Precision.HIGH):
        ...     y = torch.ones(2, 2, device="tpu") @ torch.ones(2, 2, device="tpu")
        >>> y.cpu()
        tensor([[2., 2.],
                [2., 2.]])
    """
    if not isinstance(mode, Precision):
        raise ValueError(
            f"expected to be one of 'Precision.DEFAULT', 'Precision.HIGH', or 'Precision.HIGHEST', got '{mode}'"
        )
    before = settings.of_thread()
    settings.set_of_thread(mode.value)
    try:
        yield
    finally:
        settings.set_of_thread(before)
