"""``torch.distributed._local_tensor``: tensors with the parts of all ranks in one process, which are not there.

The package `spmd_types` asks whether they are used.
"""

from __future__ import annotations

import contextlib

from ..._absent import absent_class

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["LocalTensor", "LocalTensorMode", "local_tensor_mode", "maybe_disable_local_tensor_mode"]

_WHY = "one process has the tensors of one rank"
LocalTensor = absent_class("torch.distributed._local_tensor.LocalTensor", _WHY)
LocalTensorMode = absent_class("torch.distributed._local_tensor.LocalTensorMode", _WHY)


def local_tensor_mode() -> None:
    """Return the mode in use: there is none."""


def maybe_disable_local_tensor_mode() -> AbstractContextManager[None]:
    """Return a context without the mode, which is not in use."""
    return contextlib.nullcontext()
