"""How precisely products of ``float32`` are computed within a block."""

import contextlib
import enum

from .. import functions
from ..backends import _precision as settings


class Precision(enum.Enum):
    """Precisions of StableHLO: one, three and six passes of ``bfloat16`` on a TPU."""

    DEFAULT = "medium"
    HIGH = "high"
    HIGHEST = "highest"


@contextlib.contextmanager
def precision(mode):
    """Compute matrix products and convolutions of ``float32`` with a precision until the end of the block.

    This is ``torch.set_float32_matmul_precision`` for a block. XLA:CPU always multiplies ``float32`` exactly.

    Args:
        mode: a ``torch.tpu.Precision``.

    Raises:
        ValueError: `mode` is something else.

    Example:
        >>> with torch.tpu.precision(torch.tpu.Precision.HIGH):
        ...     y = x @ w
    """
    if not isinstance(mode, Precision):
        raise ValueError(
            f"expected to be one of 'Precision.DEFAULT', 'Precision.HIGH', or 'Precision.HIGHEST', got '{mode}'"
        )
    before = settings.saved()
    functions.set_float32_matmul_precision(mode.value)
    try:
        yield
    finally:
        settings.restore(before)
