"""`torch.distributed.checkpoint.planner`: who writes and reads which part of a checkpoint."""

from __future__ import annotations

import abc
import enum
import io
import math
from dataclasses import dataclass
from typing import Any

import pytpu as torch

from .._checkpointable import _Checkpointable as _Checkpointable
from .metadata import STATE_DICT_TYPE, ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(enum.Enum):
    """Kinds of items to write: a whole tensor, a chunk of one, or the bytes of another object."""

    TENSOR = enum.auto()
    SHARD = enum.auto()
    BYTE_IO = enum.auto()


class LoadItemType(enum.Enum):
    """Kinds of items to read: a tensor, or the bytes of another object."""

    TENSOR = enum.auto()
    BYTE_IO = enum.auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """The size of an object that is written as bytes.

    Args:
        nbytes: Number of bytes.
    """

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A chunk of a tensor that is written.

    Args:
        chunk: Place of the chunk.
        properties: Properties of the tensor.
        size: Size of the whole tensor.
    """

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: torch.Size


@dataclass(frozen=True)
class WriteItem:
    """An item to write.

    Args:
        index: Its name.
        type: Its kind.
        bytes_io_data: Size of the bytes, if it is known and the item is not a tensor.
        tensor_data: The chunk, if the item is a tensor.
    """

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """Return the size of the whole tensor in bytes, or `None` for another object."""
        if self.tensor_data is None:
            return None
        return math.prod(self.tensor_data.size) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """An item to read.

    Args:
        type: Its kind.
        dest_index: Name of the value, or of its local chunk, that is filled.
        dest_offsets: First index in the local chunk.
        storage_index: Name of the saved item.
        storage_offsets: First index in the saved chunk.
        lengths: Number of elements in each dimension.
    """

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: torch.Size
    storage_index: MetadataIndex
    storage_offsets: torch.Size
    lengths: torch.Size


@dataclass(frozen=True)
class SavePlan:
    """The items that a rank writes.

    Args:
        items: The items.
        storage_data: Data of the storage.
        planner_data: Data of the planner.
        usable: `False` in place of a plan that has not changed since the last save.
    """

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """The items that a rank reads.

    Args:
        items: The items.
        storage_data: Data of the storage.
        planner_data: Data of the planner.
    """

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """A class that decides which rank writes what.

    `save` calls its methods in this order:

    1. `set_up_planner` on all ranks, with the state dict.
    2. `create_local_plan` on all ranks. The plans are sent to the coordinator.
    3. `create_global_plan` on the coordinator. Each rank receives its new plan.
    4. `finish_plan` on all ranks.
    5. `resolve_data` for each item, possibly from several threads.
    """

    @abc.abstractmethod
    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the state dict that is saved."""

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """Return the items that this rank could write."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Return the final plan of each rank, and the content of the checkpoint."""

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Take the plan of the coordinator, and return the plan to follow."""

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """Return the tensor or the bytes of an item."""


class LoadPlanner:
    """A class that decides what each rank reads, and where it goes.

    `load` calls its methods in this order:

    1. `set_up_planner` on all ranks, with the state dict and the content of the checkpoint.
    2. `create_local_plan` on all ranks. The plans are sent to the coordinator.
    3. `create_global_plan` on the coordinator. Each rank receives its new plan.
    4. `finish_plan` on all ranks.
    5. For each item, either `load_bytes`, or `resolve_tensor` and then `commit_tensor`.
    """

    @abc.abstractmethod
    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the state dict that is filled, and the content of the checkpoint."""

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """Return the items that this rank needs."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return the final plan of each rank."""

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Take the plan of the coordinator, and return the plan to follow."""

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take the bytes of an item."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Return the buffer for the bytes of an item. This class has none."""
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented")

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Return the tensor that an item is copied to."""

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Take the tensor of `resolve_tensor` after it has been filled."""
