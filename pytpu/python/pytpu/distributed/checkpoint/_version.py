"""`torch.distributed.checkpoint._version`: a name that PyTorch's planners set while they read old checkpoints."""

from __future__ import annotations

_derived_version: str | None = None
