"""`torch.distributed.checkpoint.storage`: where checkpoints are written to and read from."""

from __future__ import annotations

import abc
import os
from dataclasses import dataclass
from typing import Any

from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu.futures import Future

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """An item that was written.

    Args:
        index: Its name.
        size_in_bytes: Its size in the storage.
        storage_data: What the storage needs to find it.
    """

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """A class that writes items.

    `save` calls its methods in this order:

    1. `reset` and `set_up_storage_writer` on all ranks.
    2. `prepare_local_plan` on all ranks.
    3. `prepare_global_plan` on the coordinator.
    4. `write_data` on all ranks.
    5. `finish` on the coordinator.
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a new checkpoint, at `checkpoint_id` if that is given."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Take the role of this rank."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return the plan of this rank with data of the storage."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Return the plans of all ranks with data of the storage."""

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Write the items of a plan. Return a future of a list of `WriteResult`."""

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the content of the checkpoint, after which it is valid.

        Args:
            metadata: The content.
            results: The items that each rank has written.
        """

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether this class can write to `checkpoint_id`."""

    def storage_meta(self) -> StorageMeta | None:
        """Return the name of the checkpoint and of this save."""
        return None


class StorageReader(abc.ABC):
    """A class that reads items.

    `load` calls its methods in this order:

    1. `reset` and `read_metadata` on all ranks.
    2. `set_up_storage_reader` and `prepare_local_plan` on all ranks.
    3. `prepare_global_plan` on the coordinator.
    4. `read_data` on all ranks.
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin to read a checkpoint, at `checkpoint_id` if that is given."""

    @abc.abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the content of the checkpoint."""

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Take the content of the checkpoint and the role of this rank."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan of this rank with data of the storage."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans of all ranks with data of the storage."""

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Read the items of a plan, and give them to the planner. Return a future of `None`."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether this class can read `checkpoint_id`."""
