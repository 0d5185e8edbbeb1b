"""The description of a tensor of shards."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytpu as torch

from ...checkpoint.metadata import TensorProperties
from ..metadata import ShardMetadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Size

__all__ = ["ShardMetadata", "ShardedTensorMetadata", "TensorProperties"]


@dataclass
class ShardedTensorMetadata:
    """The places of all shards, the sizes of the tensor, and its dtype and other properties."""

    shards_metadata: list[ShardMetadata] = field(default_factory=list)
    size: Size = field(default_factory=lambda: torch.Size([]))
    tensor_properties: TensorProperties = field(default_factory=TensorProperties)
