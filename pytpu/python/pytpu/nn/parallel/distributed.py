"""Data parallelism over processes, which needs a process group. There is none yet."""

from __future__ import annotations

from typing import Any, NoReturn

from ..modules.module import Module


class DistributedDataParallel(Module):
    """Raise an error, as PyTorch does in a process without a process group.

    Args:
        module: Module to wrap.
        *args: Not used.
        **kwargs: Not used.

    Raises:
        ValueError: Always.
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
