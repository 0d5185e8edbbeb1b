"""`torch.distributed._local_tensor`: tensors with the parts of all ranks in one process, which are not there.

The package `spmd_types` asks whether they are used.
"""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

__all__ = [
    "local_tensor_mode",
    "maybe_disable_local_tensor_mode",
    "maybe_run_for_local_tensor",
]


def local_tensor_mode() -> None:
    """Return the mode in use: there is none."""


def maybe_disable_local_tensor_mode() -> AbstractContextManager[None]:
    """Return a context without the mode, which is not in use."""
    return contextlib.nullcontext()


def maybe_run_for_local_tensor(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function: without the mode it runs once, for the rank of this process."""
    return func
