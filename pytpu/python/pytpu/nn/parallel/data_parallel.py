"""Data parallelism. There is one accelerator at most, which gets whole batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytpu as torch

from ..modules.module import Module


class DataParallel(Module):
    """Wrap a module for data parallelism. There is one accelerator, which gets whole batches.

    Args:
        module: Module to call.
        device_ids: At most one device. `None` means the present one.
        output_device: Kept, but not used.
        dim: Kept, but not used.

    Attributes:
        module: The wrapped module.

    Raises:
        RuntimeError: There is more than one device.

    Example:
        >>> import pytpu as torch
        >>> model = torch.nn.DataParallel(torch.nn.Linear(2, 3))
        >>> model(torch.randn(4, 2)).shape
        torch.Size([4, 3])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[int | str | torch.device] | None = None,
        output_device: int | torch.device | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise RuntimeError(f"DataParallel: {len(device_ids)} devices were named, and there is one")
        self.module = module
        self.device_ids = [] if device_ids is None else list(device_ids)
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the result of the wrapped module.

        Args:
            *inputs: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            Its result.
        """
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[int | str | torch.device] | None = None,
    output_device: int | torch.device | None = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module as `DataParallel` does.

    Args:
        module: Module to call.
        inputs: Its arguments, or the only one.
        device_ids: At most one device.
        output_device: Not used.
        dim: Not used.
        module_kwargs: Its keyword arguments.

    Returns:
        Its result.

    Raises:
        RuntimeError: There is more than one device.
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
