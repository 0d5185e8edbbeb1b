"""`torch.distributed.checkpoint.format_utils`: checkpoints of this format and files of `torch.save`, both ways.

`python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE` and `torch_to_dcp FILE FOLDER` call
these functions.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import pytpu as torch
import pytpu.distributed as dist

from ...futures import Future
from ._nested_dict import flatten_state_dict
from ._pieces import Pieces, device_of_group, pieces_of
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter, done, fill
from .metadata import STATE_DICT_TYPE, Metadata, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType, LoadPlan, LoadPlanner
from .state_dict_loader import _load_state_dict
from .state_dict_saver import _save_state_dict
from .storage import StorageReader

__all__ = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]


class BroadcastingTorchSaveReader(StorageReader):
    """A reader of a file of `torch.save`. The coordinator reads it, and sends each tensor to all ranks.

    Use it with `DynamicMetaLoadPlanner`, which does not need a content of the checkpoint.

    Args:
        checkpoint_id: Path of the file.
        coordinator_rank: Rank of the process that reads.
    """

    def __init__(self, checkpoint_id: str | os.PathLike[str] | None = None, coordinator_rank: int = 0) -> None:
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank

    def read_metadata(self) -> Metadata:
        """Return an empty content."""
        return Metadata(state_dict_metadata={})

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Read the tensors of a plan, and give them to the planner.

        Raises:
            RuntimeError: If an item is not a tensor.
        """
        if not isinstance(planner, DefaultLoadPlanner):
            raise TypeError(f"expected a DefaultLoadPlanner, got {type(planner).__name__}")
        values: dict[str, Any] = {}
        if self.is_coordinator:
            read = torch.load(self._path, map_location="cpu")
            values = flatten_state_dict(read)[0] if planner.flatten_state_dict else read
        for item in plan.items:
            name = item.storage_index.fqn
            pieces = pieces_of(planner.state_dict[name])
            if item.type == LoadItemType.BYTE_IO or pieces is None:
                raise _not_a_tensor(name, self)
            tensor = torch.empty(pieces.size(), dtype=planner.state_dict[name].dtype, device=device_of_group())
            if self.is_coordinator:
                tensor = values[name].to(tensor.device)
            dist.broadcast(tensor, self.coordinator_rank)
            fill(planner, item, tensor, f"{self.checkpoint_id}: {name}")
        return done()

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:
        """Take the role of this rank."""
        rank = dist.get_rank()
        if is_coordinator and rank != self.coordinator_rank:
            raise AssertionError(f"Coordinator rank mismatch: expected {self.coordinator_rank}, got {rank}")
        if self.checkpoint_id is None:
            raise AssertionError("checkpoint_id must be set before setting up storage reader")
        self.is_coordinator, self._path = is_coordinator, self.checkpoint_id

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
        return global_plan

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin to read the file `checkpoint_id`."""
        self.checkpoint_id = checkpoint_id

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether there is such a file."""
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """A planner that takes the content of the checkpoint from the state dict that is filled.

    Args:
        flatten_state_dict: Whether nested dicts and lists were saved as single values with flat names.
        flatten_sharded_tensors: Accepted for compatibility.
        allow_partial_load: If `True`, values that are not in the checkpoint stay as they are.
    """

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the state dict that is filled.

        Raises:
            RuntimeError: If a value is not a tensor.
        """
        super().set_up_planner(state_dict, metadata, is_coordinator)
        self.metadata = Metadata({name: _describe(name, value, self) for name, value in self.state_dict.items()})


def _describe(name: str, value: Any, planner: DynamicMetaLoadPlanner) -> TensorStorageMetadata:
    """Return what a file says that has a value as one whole tensor."""
    pieces = pieces_of(value)
    if pieces is None:
        raise _not_a_tensor(name, planner)
    whole = Pieces(torch.empty(pieces.size(), device="meta"))
    return TensorStorageMetadata(TensorProperties(dtype=value.dtype), pieces.size(), whole.chunks())


def _not_a_tensor(name: str, reader: object) -> RuntimeError:
    return RuntimeError(
        f"Non-tensor value identified at {name}. At this time {type(reader).__name__} only supports loading Tensors."
    )


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]) -> None:
    """Write the values of a checkpoint to a file of `torch.save`. Call it in one process.

    Args:
        dcp_checkpoint_dir: Folder of the checkpoint.
        torch_save_path: Path of the new file.
    """
    values: STATE_DICT_TYPE = {}
    reader = FileSystemReader(dcp_checkpoint_dir)
    _load_state_dict(values, reader, no_dist=True, planner=_EmptyStateDictLoadPlanner())
    torch.save(values, torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]) -> None:
    """Write the values of a file of `torch.save` to a checkpoint. Call it in one process.

    Args:
        torch_save_path: Path of the file. It is read without trust.
        dcp_checkpoint_dir: Folder of the new checkpoint.
    """
    values = torch.load(torch_save_path)
    _save_state_dict(values, storage_writer=FileSystemWriter(dcp_checkpoint_dir), no_dist=True)


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["torch_to_dcp", "dcp_to_torch"], help="Conversion mode")
    parser.add_argument("src", help="Path to the source model")
    parser.add_argument("dst", help="Path to the destination model")
    args = parser.parse_args()
    print(f"Converting checkpoint from {args.src} to {args.dst} using method: '{args.mode}'")
    is_file = args.mode == "torch_to_dcp"
    if not (os.path.isfile if is_file else os.path.isdir)(args.src):
        print(f"No checkpoint found at {args.src}. Skipping conversion.")
    elif is_file:
        torch_save_to_dcp(args.src, args.dst)
    else:
        dcp_to_torch_save(args.src, args.dst)


if __name__ == "__main__":
    _main()
