"""``torch.distributed.checkpoint.hf_storage``: checkpoints as safetensors files, with the names of Hugging Face."""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import Any

import pytpu as torch

from ... import safetensors
from ...futures import Future
from ._consolidate_hf_safetensors import consolidate_safetensors_files, write_index
from ._hf_utils import (
    CUSTOM_METADATA_KEY,
    SAVED_OFFSETS_KEY,
    SHARDED_DIR_NAME,
    SUFFIX,
    _gen_file_name,
    _HFStorageInfo,
    _metadata_fn as _metadata_fn,
)
from .filesystem import FileSystemReader, FileSystemWriter, SerializationFormat, _fill
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

logger: logging.Logger = logging.getLogger(__name__)

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


class HuggingFaceStorageWriter(FileSystemWriter):
    """A writer of tensors to safetensors files.

    Args:
        path: The folder.
        fqn_to_index_mapping: Number of the file of each tensor, from 1. By default all are in one file.
        thread_count: Number of threads that write, each to a file of its own.
        save_distributed: Whether each rank writes files of its own, with the chunks that it has.
        enable_consolidation: Whether these files go to the subfolder ``sharded``, and the coordinator then writes files
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
        super().__init__(path=path, serialization_format=SerializationFormat.SAFETENSORS, thread_count=thread_count)
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed = save_distributed
        self.enable_consolidation = enable_consolidation
        self.consolidated_output_path: str | None = None
        if enable_consolidation:
            self.consolidated_output_path = str(self.path)
            self.path = self.fs.concat_path(self.path, SHARDED_DIR_NAME)
        self.thread_count_consolidation = thread_count_consolidation

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Give each rank the numbers of files."""
        prepared = []
        for rank, plan in enumerate(plans, start=1):
            data: dict[str, Any] = {}
            if self.fqn_to_index_mapping is not None:
                data["fqn_to_index_mapping"] = self.fqn_to_index_mapping
            if self.save_distributed:
                data["shard_index"] = rank
            prepared.append(dataclasses.replace(plan, storage_data=data))
        return prepared

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Write the items of a plan. Return a future of a list of `WriteResult`."""
        mapping = plan.storage_data.get("fqn_to_index_mapping")
        shard = plan.storage_data.get("shard_index")
        largest = 1 if mapping is None else max(mapping.values())
        files = []
        for number, items in self._split_by_storage_plan(mapping, plan.items).items():
            name = _gen_file_name(number, largest, shard)
            if items:
                files.append((self.fs.concat_path(self.path, name), name, items))
        return self._write_data(planner, files)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index file, and with ``enable_consolidation`` the files with whole tensors."""
        if self.save_distributed and not self.enable_consolidation:
            logger.info("Not consolidating sharded checkpoint in finish step.")
            return
        if self.save_distributed:
            consolidate_safetensors_files(
                input_dir=str(self.path),
                output_dir=str(self.consolidated_output_path),
                num_threads=self.thread_count_consolidation,
                fqn_to_index_mapping=self.fqn_to_index_mapping or dict.fromkeys(metadata.state_dict_metadata, 1),
            )
            return
        written = [result for part in results for result in part]
        write_index(
            str(self.path),
            {result.index.fqn: result.storage_data.relative_path for result in written},
            sum(result.storage_data.length for result in written),
        )

    def _split_by_storage_plan(
        self, storage_plan: dict[str, int] | None, items: list[WriteItem]
    ) -> dict[int, list[WriteItem]]:
        """Return the items of each file, by its number."""
        if storage_plan is None:
            return {1: items}
        buckets: dict[int, list[WriteItem]] = {}
        for item in items:
            buckets.setdefault(storage_plan[item.index.fqn], []).append(item)
        return buckets

    @property
    def metadata_path(self) -> str:
        """Name of the index file."""
        return _metadata_fn


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
            files.setdefault(self._place_of(item.storage_index).relative_path, []).append(item)

        def read(file: tuple[str, list[ReadItem]]) -> None:
            path, requests = file
            try:
                with safetensors.safe_open(path) as opened:
                    tensors = {fqn: opened.get_tensor(fqn) for fqn in {r.storage_index.fqn for r in requests}}
            except safetensors.SafetensorError as error:
                raise RuntimeError(f"{path}: the file is damaged: {error}") from error
            for request in requests:
                fqn = request.storage_index.fqn
                _fill(planner, request, tensors[fqn], f"{path}: {fqn}")

        if self.thread_count > 1:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(self.thread_count) as threads:
                list(threads.map(read, files.items()))
        else:
            for file in files.items():
                read(file)
        future = Future()
        future.set_result(None)
        return future

    def read_metadata(self) -> Metadata:
        """Return the content of the checkpoint, which the headers of the files say.

        Raises:
            RuntimeError: If a file is damaged. The text names the file.
        """
        tensors: dict[str, TensorStorageMetadata] = {}
        places: dict[MetadataIndex, _HFStorageInfo] = {}
        for path in sorted(file for file in self.fs.ls(self.path) if file.endswith(SUFFIX)):
            try:
                _add_file(path, tensors, places)
            except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
                raise RuntimeError(f"{path}: the file is damaged: {type(error).__name__}: {error}") from error
        return Metadata(
            state_dict_metadata=dict(tensors),
            storage_data=places,
            storage_meta=StorageMeta(load_id=self.load_id),
        )


_DTYPES = {name: dtype for dtype, name in safetensors._DTYPES.items()}


def _add_file(
    path: str, tensors: dict[str, TensorStorageMetadata], places: dict[MetadataIndex, _HFStorageInfo]
) -> None:
    """Add the chunks of a file to the content of a checkpoint."""
    with safetensors.safe_open(path) as file:
        text = (file.metadata() or {}).get(CUSTOM_METADATA_KEY)
        offsets = None if text is None else json.loads(text)
        for name in file.keys():
            piece = file.get_slice(name)
            shape, dtype = torch.Size(piece.get_shape()), _DTYPES[piece.get_dtype()]
            offset = torch.Size([0] * len(shape) if offsets is None else offsets[name][SAVED_OFFSETS_KEY])
            end = torch.Size([a + n for a, n in zip(offset, shape, strict=True)])
            md = tensors.setdefault(name, TensorStorageMetadata(TensorProperties(dtype=dtype), end, []))
            # The files do not say the size of the whole tensor.
            md.size = torch.Size([max(a, b) for a, b in zip(md.size, end, strict=True)])
            md.chunks.append(ChunkStorageMetadata(offset, shape))
            places[MetadataIndex(name, offset)] = _HFStorageInfo(path, shape, dtype)
