"""`torch.distributed.checkpoint.hf_storage`: checkpoints as safetensors files, with the names of Hugging Face."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytpu as torch

from ... import safetensors
from ...futures import Future
from ._consolidate_hf_safetensors import (
    INDEX_NAME,
    chunks_by_tensor,
    consolidate_safetensors_files,
    file_name,
    whole_size,
    write_index,
)
from .filesystem import FileSystemReader, FileSystemWriter, SerializationFormat, done, fill, map_with_threads
from .metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


class HuggingFaceStorageWriter(FileSystemWriter):
    """A writer of tensors to safetensors files.

    Args:
        path: The folder.
        fqn_to_index_mapping: Number of the file of each tensor, from 1. By default all are in one file.
        thread_count: Number of threads that write, each to a file of its own.
        save_distributed: Whether each rank writes files of its own, with the chunks that it has.
        enable_consolidation: Whether these files go to the subfolder `sharded`, and the coordinator then writes files
            with whole tensors.
        thread_count_consolidation: Number of threads that write whole tensors.
    """

    def __init__(
        self,
        path: str,
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        # Files of the ranks are not of use to other programs, so they get a folder of their own.
        folder = os.path.join(path, "sharded") if enable_consolidation else path
        super().__init__(folder, thread_count=thread_count, serialization_format=SerializationFormat.SAFETENSORS)
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed = save_distributed
        self.enable_consolidation = enable_consolidation
        self.thread_count_consolidation = thread_count_consolidation
        self.consolidated_output_path = str(path) if enable_consolidation else None

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Tell each rank its number, from 1, if ranks write files of their own."""
        numbers = [rank if self.save_distributed else None for rank in range(1, len(plans) + 1)]
        return [replace(plan, storage_data=number) for plan, number in zip(plans, numbers, strict=True)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Write the items of a plan. Return a future of a list of `WriteResult`."""
        mapping = self.fqn_to_index_mapping
        files: dict[str, list[WriteItem]] = {}
        for item in plan.items:
            number, count = (1, 1) if mapping is None else (mapping[item.index.fqn], max(mapping.values()))
            files.setdefault(file_name(number, count, plan.storage_data), []).append(item)
        return self._write_files(planner, files)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index file, and with `enable_consolidation` the files with whole tensors."""
        if not self.save_distributed:
            written = [result for part in results for result in part]
            names = {result.index.fqn: result.storage_data.relative_path for result in written}
            write_index(str(self.path), names, sum(result.storage_data.length for result in written))
        elif self.consolidated_output_path is not None:
            numbers = self.fqn_to_index_mapping or dict.fromkeys(metadata.state_dict_metadata, 1)
            consolidate_safetensors_files(
                str(self.path), self.consolidated_output_path, numbers, self.thread_count_consolidation
            )

    @property
    def metadata_path(self) -> str:
        """Name of the index file."""
        return INDEX_NAME


class HuggingFaceStorageReader(FileSystemReader):
    """A reader of tensors in all safetensors files of a folder.

    Args:
        path: The folder.
        thread_count: Number of threads that read, each a file of its own.
    """

    def __init__(self, path: str, thread_count: int = 1) -> None:
        super().__init__(path=path)
        self.thread_count = thread_count

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Read the items of a plan, and give them to the planner.

        Raises:
            RuntimeError: If a file is damaged. The text names the file.
        """
        files: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            files.setdefault(self._place_of(item.storage_index), []).append(item)

        def read(path: str) -> None:
            names = {request.storage_index.fqn for request in files[path]}
            try:
                with safetensors.safe_open(path) as file:
                    tensors = {name: file.get_tensor(name) for name in names}
            except safetensors.SafetensorError as error:
                raise RuntimeError(f"{path}: the file is damaged: {error}") from error
            for request in files[path]:
                name = request.storage_index.fqn
                fill(planner, request, tensors[name], f"{path}: {name}")

        map_with_threads(read, files, self.thread_count)
        return done()

    def read_metadata(self) -> Metadata:
        """Return the content of the checkpoint, which the headers of the files say.

        Raises:
            RuntimeError: If a file is damaged. The text names the file.
        """
        content: dict[str, Any] = {}
        path_of: dict[MetadataIndex, str] = {}
        for name, chunks in chunks_by_tensor(self.fs.ls(self.path)).items():
            tensor = TensorStorageMetadata(
                TensorProperties(dtype=_DTYPES[chunks[0][3]]), torch.Size(whole_size(chunks)), []
            )
            for path, offset, size, _ in chunks:
                tensor.chunks.append(ChunkStorageMetadata(torch.Size(offset), torch.Size(size)))
                path_of[MetadataIndex(name, offset)] = path
            content[name] = tensor
        return Metadata(content, storage_data=path_of, storage_meta=StorageMeta(load_id=self.load_id))


_DTYPES = {name: dtype for dtype, name in safetensors._DTYPES.items()}
