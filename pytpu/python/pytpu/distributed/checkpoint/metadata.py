"""`torch.distributed.checkpoint.metadata`: the classes of the file `.metadata`.

The file is a pickle of `Metadata`. Names and fields are PyTorch's, so that each library reads the other's files.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytpu as torch

from .stateful import StatefulT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """The place of a chunk, which is a box of a tensor.

    Args:
        offsets: First index of the chunk in each dimension.
        sizes: Size of the chunk in each dimension.
    """

    offsets: torch.Size
    sizes: torch.Size


class _MEM_FORMAT_ENCODING(enum.Enum):
    """Memory formats as files name them."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_MEMORY_FORMATS = {
    _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT: torch.contiguous_format,
    _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST: torch.channels_last,
    _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT: torch.preserve_format,
}


@dataclass
class TensorProperties:
    """Properties of a saved tensor.

    Args:
        dtype: Its dtype.
        layout: Its layout.
        requires_grad: Whether it required gradients.
        memory_format: Its memory format.
        pin_memory: Whether it was in pinned memory.
        strides: Its strides, in elements. `None` in files of older versions.
    """

    dtype: torch.dtype = field(default_factory=torch.get_default_dtype)
    layout: torch.layout = field(default=torch.strided)
    requires_grad: bool = False
    memory_format: torch.memory_format = field(default=torch.contiguous_format)
    pin_memory: bool = False
    strides: tuple[int, ...] | None = None

    def __getstate__(self) -> tuple[Any, ...]:
        for encoding, known in _MEMORY_FORMATS.items():
            if known == self.memory_format:
                return self.dtype, self.layout, self.requires_grad, encoding, self.pin_memory, self.strides
        raise RuntimeError(f"Invalid torch.memory_format: {self.memory_format}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        # Older files have no strides.
        self.dtype, self.layout, self.requires_grad, encoding, self.pin_memory, *rest = state
        self.strides = rest[0] if rest else None
        try:
            self.memory_format = _MEMORY_FORMATS[encoding]
        except (KeyError, TypeError):
            raise RuntimeError(f"Invalid torch.memory_format encoding: {encoding}") from None

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """Return the properties of a tensor."""
        pinned, strides = tensor.is_pinned(), tuple(tensor.stride())
        return TensorProperties(
            tensor.dtype, tensor.layout, tensor.requires_grad, torch.contiguous_format, pinned, strides
        )


@dataclass
class TensorStorageMetadata:
    """A saved tensor.

    Args:
        properties: Its dtype and other properties.
        size: Size of the whole tensor.
        chunks: The boxes in which it was saved.
    """

    properties: TensorProperties
    size: torch.Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A saved object that is not a tensor."""


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata
STATE_DICT_TYPE = dict[str, StatefulT | Any]


@dataclass
class StorageMeta:
    """Where and by which call a checkpoint was saved.

    Args:
        checkpoint_id: Path or other name of the checkpoint.
        save_id: A random name of the call that saved it.
        load_id: A random name of the call that loads it.
        modules: Names of modules.
    """

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """What a checkpoint contains.

    Args:
        state_dict_metadata: The saved values by their flat names.
        planner_data: Data of the planner. `DefaultSavePlanner` writes the path of each flat name.
        storage_data: Data of the storage. `FileSystemWriter` writes the file, the offset and the length of each item.
        storage_meta: Where and by which call the checkpoint was saved.
        version: Version of the format.
    """

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """The name of a saved item. Two names are equal if `fqn` and `offset` are.

    Args:
        fqn: The flat name of the value.
        offset: First index of the chunk, if the value is a tensor.
        index: Position of the chunk in the list of chunks, which makes looking it up faster.
    """

    fqn: str
    offset: torch.Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        # The class is frozen.
        vars(self).update(fqn=fqn, offset=None if offset is None else torch.Size(offset), index=index)
