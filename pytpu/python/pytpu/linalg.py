"""`torch.linalg`: the ops of the table whose names begin with `linalg_`."""

from __future__ import annotations

from typing import Any

from . import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor

    def __getattr__(name: str) -> Any: ...


_PREFIX = "linalg_"
globals().update({k[len(_PREFIX) :]: v for k, v in vars(_C._ops).items() if k.startswith(_PREFIX)})

#: Error of a decomposition that fails, or of a matrix without an inverse.
LinAlgError = _C._LinAlgError


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Return the product of a chain of matrices, in the cheapest order.

    Args:
        tensors: Matrices of shapes `(a, b), (b, c), ...`. The first and the last may be vectors.
        out: Tensor to write the result to.

    Raises:
        RuntimeError: If there are fewer than two tensors, or the sizes do not fit.

    Example:
        >>> import pytpu as torch
        >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
        tensor([12., 12.])
    """
    return _C._ops.linalg_multi_dot(list(tensors), out=out)
