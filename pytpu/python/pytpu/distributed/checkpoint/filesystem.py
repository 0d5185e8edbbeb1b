"""`torch.distributed.checkpoint.filesystem`: checkpoints in folders.

A rank writes its items to files `__RANK_NUMBER.distcp`, each item as `torch.save` writes it. The coordinator then
writes `.metadata`, which names the file, the offset and the length of each item.

A save never changes a file that the present `.metadata` names. It takes unused numbers, replaces `.metadata` when
all ranks have written their files to the disk, and only then removes the old files. So the folder always holds a
complete checkpoint, the old one or the new one.
"""

from __future__ import annotations

import contextlib
import enum
import heapq
import io
import os
import pickle
import re
import secrets
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytpu as torch

from ... import _replace_file, safetensors
from ...futures import Future
from . import _metadata_file
from ._consolidate_hf_safetensors import described_chunks
from ._extension import ExtensionRegistry, StreamTransformExtension
from ._pieces import narrow
from .metadata import STATE_DICT_TYPE, Metadata, MetadataIndex, StorageMeta
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor

__all__ = ["FileSystem", "FileSystemBase", "FileSystemReader", "FileSystemWriter", "SerializationFormat"]

_DATA_FILE = re.compile(r"__\d+_\d+\.distcp")
_TEMPORARY = re.compile(r"(__\d+_\d+\.distcp|(__\d+)?\.metadata)\.[0-9a-f]{8}\.tmp")
_METADATA_OF_RANK = re.compile(r"__\d+\.metadata")


@dataclass
class _StorageInfo:
    """The place of an item.

    Args:
        relative_path: Name of the file.
        offset: Position of its first byte.
        length: Number of bytes.
        transform_descriptors: Extensions that changed the bytes, the last one first.
    """

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Older versions of PyTorch do not know extensions.
        state = dict(vars(self))
        if self.transform_descriptors is None:
            state.pop("transform_descriptors", None)
        return state


class SerializationFormat(enum.Enum):
    """Formats of files: that of `torch.save` for each item, or a file of safetensors."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


# ---- file systems


class FileSystemBase(ABC):
    """The operations on files that writers and readers need."""

    # Whether `rename` replaces an existing file in one step.
    _rename_replaces: ClassVar[bool] = False

    @contextmanager
    @abstractmethod
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[Any, None, None]:
        """Return a context manager that opens a file."""
        yield

    @abstractmethod
    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str | os.PathLike[str]:
        """Return the path of a file in a folder."""

    @abstractmethod
    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Rename a file."""

    @abstractmethod
    def init_path(self, path: str | os.PathLike[str]) -> str | os.PathLike[str]:
        """Return a path in the form that the other methods take."""

    @abstractmethod
    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Make a folder and its parents, unless it exists."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether `checkpoint_id` can be a path here."""

    @abstractmethod
    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Return whether there is a file."""

    @abstractmethod
    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Remove a file."""


class FileSystem(FileSystemBase):
    """The file system of the operating system."""

    _rename_replaces = True

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[Any, None, None]:
        """Return a context manager that opens a file."""
        with Path(path).open(mode) as stream:
            yield stream

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> Path:
        """Return the path of a file in a folder."""
        return Path(path) / suffix

    def init_path(self, path: str | os.PathLike[str]) -> Path:
        """Return a `pathlib.Path`."""
        return Path(path)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Rename a file. A file with the new name is replaced in one step."""
        os.replace(path, new_path)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Make a folder and its parents, unless it exists."""
        Path(path).mkdir(parents=True, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether `checkpoint_id` is a path below a folder that this process may write to."""
        if isinstance(checkpoint_id, Path):
            return True
        is_url = "://" in os.fspath(checkpoint_id)
        return not is_url and any(os.access(parent, os.W_OK) for parent in Path(checkpoint_id).parents)

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Return whether there is a file."""
        return Path(path).exists()

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Remove a file."""
        Path(path).unlink()

    def ls(self, path: str | os.PathLike[str]) -> list[str]:
        """Return the paths of the files in a folder."""
        return [str(p) for p in Path(path).iterdir()]


def _flush_to_disk(stream: Any) -> None:
    stream.flush()
    try:
        os.fsync(stream.fileno())
    except (AttributeError, io.UnsupportedOperation) as error:
        warnings.warn(f"fsync not supported for this stream, relying on flush(): {error}", stacklevel=2)


# ---- writing


class _NotClosing(io.IOBase):
    """A stream that writes to another one, which stays open."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def writable(self) -> bool:
        """Return `True`."""
        return True

    def write(self, b: Any) -> int:
        """Write bytes."""
        return self.raw.write(b)

    def close(self) -> None:
        """Flush the other stream."""
        self.raw.flush()


def _shared_out(items: list[WriteItem], count: int) -> list[list[WriteItem]]:
    """Return the items in at most `count` lists of about the same number of bytes."""

    def nbytes(item: WriteItem) -> int:
        data = item.tensor_data
        # A small object takes about 1 KiB.
        return 1024 if data is None else data.chunk.sizes.numel() * data.properties.dtype.itemsize

    lists: list[list[WriteItem]] = [[] for _ in range(count)]
    # The next item goes to the list with the fewest bytes.
    heap = [(0, number) for number in range(count)]
    for item in sorted(items, key=nbytes, reverse=True):
        total, number = heap[0]
        lists[number].append(item)
        heapq.heapreplace(heap, (total + nbytes(item), number))
    return [part for part in lists if part]


def _on_cpu(tensor: Tensor) -> Tensor:
    """Return a tensor on `cpu` whose storage holds nothing else."""
    tensor = tensor.detach().as_subclass(torch.Tensor).cpu()
    return tensor.clone() if tensor.untyped_storage().nbytes() != tensor.nbytes else tensor


def map_with_threads(function: Callable[[Any], Any], values: Iterable[Any], thread_count: int) -> list[Any]:
    """Return the results of a function for some values, computed by threads if there are several."""
    if thread_count <= 1:
        return [function(value) for value in values]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(thread_count) as threads:
        return list(threads.map(function, values))


def done(result: Any = None) -> Future:
    """Return a future that is complete."""
    future = Future()
    future.set_result(result)
    return future


class _InFolder:
    """What writers and readers of folders share.

    Args:
        path: The folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.fs: Any = self._make_file_system()
        self.path: Any = self.fs.init_path(path)
        self.rank: int | None = None
        self.use_collectives = True

    def _make_file_system(self) -> FileSystemBase:
        return FileSystem()

    def _use_folder(self, path: str | os.PathLike[str] | None) -> None:
        if path:
            self.path = self.fs.init_path(path)

    def _take_role(self, rank: int | None = None, use_collectives: bool = True, **_: Any) -> None:
        self.rank, self.use_collectives = rank, use_collectives

    def _metadata_path(self, rank: int | None) -> Any:
        """Return the path of the metadata of all ranks, or of one rank that saved without collectives."""
        return self.fs.concat_path(self.path, ".metadata" if rank is None else f"__{rank}.metadata")

    def _own_metadata_path(self) -> Any:
        return self._metadata_path(None if self.use_collectives else self.rank)

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether `checkpoint_id` is a path below a folder that this process may write to."""
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FileSystemWriter(_InFolder, BlockingAsyncStager, StorageWriter):
    """A writer of checkpoints to a folder.

    Args:
        path: The folder. It is made if it does not exist. All ranks must see the same folder.
        single_file_per_rank: If `False`, each item gets a file of its own.
        sync_files: Whether files are flushed to the disk (`fsync`) before they get their names.
        thread_count: Number of threads that write, each to a file of its own.
        per_thread_copy_ahead: Accepted for compatibility. Tensors are copied to the host one after the other.
        cache_staged_state_dict: Whether `async_save` keeps the copy of the state dict for the next call.
        overwrite: If `False`, an existing checkpoint is an error.
        _extensions: Extensions that change the bytes of items.
        serialization_format: Format of the files.

    Example:
        >>> import pytpu as torch
        >>> import tempfile
        >>> import pytpu.distributed.checkpoint as dcp
        >>> folder = tempfile.mkdtemp()
        >>> written = dcp.save({"w": torch.ones(2)}, storage_writer=dcp.FileSystemWriter(folder), no_dist=True)
        >>> sorted(written.state_dict_metadata)
        ['w']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Sequence[StreamTransformExtension] | None = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        _InFolder.__init__(self, path)
        BlockingAsyncStager.__init__(self, cache_staged_state_dict)
        self.single_file_per_rank = single_file_per_rank
        self.sync_files = sync_files
        self.thread_count = thread_count
        self.per_thread_copy_ahead = per_thread_copy_ahead
        self.overwrite = overwrite
        self.serialization_format = serialization_format
        self._extensions = tuple(_extensions or ())
        self.save_id = str(uuid.uuid4())

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a new checkpoint, in the folder `checkpoint_id` if that is given."""
        self._use_folder(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Take the role of this rank."""
        self._take_role(**kwargs)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the folder.

        Raises:
            RuntimeError: If there is a checkpoint, and `overwrite` is false.
        """
        self.fs.mkdir(self.path)
        if self.fs.exists(self._own_metadata_path()):
            self._warn_of_overwriting()
        is_alone = self.rank is not None and not self.use_collectives
        return replace(plan, storage_data=f"__{self.rank}_") if is_alone else plan

    def _warn_of_overwriting(self) -> None:
        if not self.overwrite:
            raise RuntimeError("Checkpoint already exists and self.overwrite=False.")
        warnings.warn(
            f"Detected an existing checkpoint in {self.path}, overwriting since self.overwrite=True. Past version 2.5 "
            "of PyTorch, `overwrite` will default to False. Set this variable to True to maintain this functionality "
            "or False to raise when an existing checkpoint is found.",
            stacklevel=3,
        )

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Give each rank the beginning of the names of its files."""
        prefixes = [plan.storage_data or f"__{rank}_" for rank, plan in enumerate(plans)]
        return [replace(plan, storage_data=prefix) for plan, prefix in zip(plans, prefixes, strict=True)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Write the items of a plan to new files. Return a future of a list of `WriteResult`."""
        if self.single_file_per_rank:
            parts = _shared_out(plan.items, max(1, self.thread_count))
        else:
            parts = [[item] for item in plan.items]
        names = self._unused_names(plan.storage_data)
        return self._write_files(planner, dict(zip(names, parts, strict=False)))

    def _unused_names(self, prefix: str) -> Iterator[str]:
        """Return the names of files with this beginning that do not exist."""
        number = 0
        while True:
            name = f"{prefix}{number}.distcp"
            if not self.fs.exists(self.fs.concat_path(self.path, name)):
                yield name
            number += 1

    def _write_files(self, planner: SavePlanner, files: dict[str, list[WriteItem]]) -> Future:
        """Write files with some items each. Return a future of a list of `WriteResult`."""

        def write(name: str) -> list[WriteResult]:
            with self._new_file(self.fs.concat_path(self.path, name)) as stream:
                return self._write_items(stream, name, files[name], planner)

        written = map_with_threads(write, files, self.thread_count)
        self._sync_folder()
        return done([result for results in written for result in results])

    @contextmanager
    def _new_file(self, path: Any, mode: str = "wb") -> Generator[Any, None, None]:
        """Open a file for writing. It gets its name when it is complete and on the disk.

        On other file systems, where renaming may be a copy, data files are written under their names.
        """
        is_replaced = getattr(self.fs, "_rename_replaces", False)
        is_data = os.fspath(path) != os.fspath(self._own_metadata_path())
        temporary = path if is_data and not is_replaced else f"{os.fspath(path)}.{secrets.token_hex(4)}.tmp"
        try:
            with self.fs.create_stream(temporary, mode) as stream:
                yield stream
                if self.sync_files:
                    _flush_to_disk(stream)
            if temporary is not path:
                if not is_replaced and self.fs.exists(path):
                    self.fs.rm_file(path)
                self.fs.rename(temporary, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self.fs.rm_file(temporary)
            raise

    def _sync_folder(self) -> None:
        if self.sync_files and isinstance(self.fs, FileSystem):
            # The folder itself may be new.
            for folder in (self.path, self.path.parent):
                _replace_file._sync_folder(folder)

    def _write_items(self, stream: Any, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        """Write items to one file, objects that are not tensors first."""
        ordered = sorted(items, key=lambda item: item.type != WriteItemType.BYTE_IO)
        if self.serialization_format == SerializationFormat.SAFETENSORS:
            return self._write_safetensors(stream, name, ordered, planner)
        results = []
        for item in ordered:
            data = planner.resolve_data(item)
            offset = stream.tell()
            target: Any = _NotClosing(stream)
            for extension in self._extensions:
                target = extension.transform_to(target)
            if isinstance(data, torch.Tensor):
                torch.save(_on_cpu(data), target)
            else:
                target.write(data.getbuffer())
            target.close()
            length = stream.tell() - offset
            changes = [extension.get_descriptor() for extension in reversed(self._extensions)]
            results.append(WriteResult(item.index, length, _StorageInfo(name, offset, length, changes or None)))
        return results

    def _write_safetensors(
        self, stream: Any, name: str, items: list[WriteItem], planner: SavePlanner
    ) -> list[WriteResult]:
        """Write the tensors of one file, with the offsets of chunks in the metadata of the file."""
        tensors, offsets, results = {}, {}, []
        for item in items:
            data = planner.resolve_data(item)
            if not isinstance(data, torch.Tensor) or item.tensor_data is None:
                raise ValueError(f"{name}: a file of safetensors holds tensors only, and {item.index.fqn} is none")
            if item.index.fqn in tensors:
                raise ValueError(f"{name}: a file of safetensors holds one chunk of {item.index.fqn}, not several")
            tensors[item.index.fqn] = _on_cpu(data).contiguous()
            offsets[item.index.fqn] = item.tensor_data.chunk.offsets
            results.append(WriteResult(item.index, data.nbytes, _StorageInfo(name, 0, data.nbytes)))
        stream.write(safetensors.save(tensors, metadata=described_chunks(offsets)))
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write `.metadata`, which makes the new checkpoint valid. Then remove files that it does not name."""
        metadata.version = "1.0.0"
        metadata.storage_data = {result.index: result.storage_data for part in results for result in part}
        metadata.storage_meta = self.storage_meta()
        with self._new_file(self._own_metadata_path()) as stream:
            _metadata_file.write(metadata, stream)
        self._sync_folder()
        self._remove_old_files({place.relative_path for place in metadata.storage_data.values()})

    def _remove_old_files(self, used: set[str]) -> None:
        """Remove data files of earlier saves to this folder, also of saves that did not end."""
        if not hasattr(self.fs, "ls"):
            return
        paths = {os.path.basename(path): path for path in self.fs.ls(self.path)}
        if self.use_collectives:
            if any(_METADATA_OF_RANK.fullmatch(name) for name in paths):
                # The files of a checkpoint without collectives are in use, too.
                return
            own: tuple[str, ...] = ("",)
        else:
            own = (f"__{self.rank}_", f"__{self.rank}.")
        for name, path in paths.items():
            is_old = name not in used and (_DATA_FILE.fullmatch(name) or _TEMPORARY.fullmatch(name))
            if is_old and name.startswith(own):
                with contextlib.suppress(OSError):
                    self.fs.rm_file(path)

    def storage_meta(self) -> StorageMeta | None:
        """Return the folder and the name of this save."""
        return StorageMeta(self.checkpoint_id, self.save_id)

    def stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        """Return a copy of the state dict in host memory."""
        # The values are on the host now.
        self.per_thread_copy_ahead = 0
        return super().stage(state_dict)


# ---- reading


class _Part(io.RawIOBase):
    """A part of a file, as a file that can be read.

    Args:
        file: The file.
        start: Position of the first byte.
        length: Number of bytes.
    """

    def __init__(self, file: Any, start: int, length: int) -> None:
        super().__init__()
        self._file, self._start, self._length = file, start, length
        self._position = 0

    def readable(self) -> bool:
        """Return `True`."""
        return True

    def seekable(self) -> bool:
        """Return `True`."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position, and return it."""
        position = offset + (0, self._position, self._length)[whence]
        if position < 0:
            raise ValueError(f"negative seek position {position}")
        self._position = position
        return position

    def readinto(self, b: Any) -> int:
        """Read into a buffer, and return the number of bytes."""
        self._file.seek(self._start + self._position)
        count = self._file.readinto(memoryview(b).cast("B")[: max(0, self._length - self._position)])
        self._position += count
        return count

    def read(self, size: int | None = -1) -> bytes:
        """Return bytes up to the end of the part, at most `size` of them."""
        left = max(0, self._length - self._position)
        self._file.seek(self._start + self._position)
        data = self._file.read(left if size is None or size < 0 else min(size, left))
        self._position += len(data)
        return data


class FileSystemReader(_InFolder, StorageReader):
    """A reader of checkpoints in a folder, of this package or of PyTorch.

    Neither `.metadata` nor the items can run code. Classes that are not part of the format are refused, unless
    `torch.serialization.add_safe_globals` allows them.

    Args:
        path: The folder.
        _extension_registry: Extensions that files may name.
    """

    def __init__(self, path: str | os.PathLike[str], _extension_registry: ExtensionRegistry | None = None) -> None:
        super().__init__(path)
        self._extensions = _extension_registry or ExtensionRegistry()
        self.storage_data: dict[Any, Any] = {}
        self.load_id = str(uuid.uuid4())

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin to read a checkpoint, in the folder `checkpoint_id` if that is given."""
        self._use_folder(checkpoint_id)
        self.storage_data = {}
        self.load_id = str(uuid.uuid4())

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Read the items of a plan, and give them to the planner.

        Raises:
            RuntimeError: If a file is damaged. The text names the file and the item.
            OSError: If a file cannot be read.
        """
        files: dict[str, dict[MetadataIndex, list[ReadItem]]] = {}
        for item in plan.items:
            place = self._place_of(item.storage_index)
            files.setdefault(place.relative_path, {}).setdefault(item.storage_index, []).append(item)
        for name, items in files.items():
            path = self.fs.concat_path(self.path, name)
            with self.fs.create_stream(path, "rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                # Read a chunk once, also if several items need it.
                for index, requests in sorted(items.items(), key=lambda pair: self.storage_data[pair[0]].offset):
                    self._read_chunk(path, stream, size, index, requests, planner)
        return done()

    def _place_of(self, index: MetadataIndex) -> Any:
        place = self.storage_data.get(index)
        if place is None:
            raise RuntimeError(f"{self._own_metadata_path()}: no file is named for {index}")
        return place

    def _read_chunk(
        self, path: Any, stream: Any, size: int, index: MetadataIndex, requests: list[ReadItem], planner: LoadPlanner
    ) -> None:
        place = self.storage_data[index]
        what = f"{path}: {index.fqn}"
        if place.offset + place.length > size:
            raise RuntimeError(
                f"{what}: the file is truncated: it has {size} bytes, and the item needs the bytes from "
                f"{place.offset} to {place.offset + place.length}"
            )
        source: Any = _Part(stream, place.offset, place.length)
        for extension in self._extensions.from_descriptor_list(place.transform_descriptors or ()):
            if isinstance(extension, StreamTransformExtension):
                source = extension.transform_from(source)
        if requests[0].type == LoadItemType.BYTE_IO:
            data = source.read(-1)
            for request in requests:
                try:
                    planner.load_bytes(request, io.BytesIO(data))
                except (pickle.UnpicklingError, EOFError) as error:
                    raise pickle.UnpicklingError(f"{what}: {error}") from error
            return
        seekable = source if source.seekable() else io.BytesIO(source.read(-1))
        try:
            tensor = torch.load(seekable, map_location="cpu", weights_only=True)
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"expected a tensor, got {type(tensor).__name__}")
        except Exception as error:
            raise RuntimeError(f"{what}: the item is damaged: {type(error).__name__}: {error}") from error
        for request in requests:
            fill(planner, request, tensor, what)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the content of the checkpoint.

        Args:
            args: Accepted for compatibility.
            kwargs: `rank` is the rank whose metadata is read, of a checkpoint that was saved without collectives.

        Raises:
            OSError: If there is no file `.metadata`.
            pickle.UnpicklingError: If it is damaged.
        """
        path = self._metadata_path(kwargs.get("rank"))
        with self.fs.create_stream(path, "rb") as stream:
            metadata = _metadata_file.read(stream.read(), path)
        # Files of older versions have no such field.
        saved_by = vars(metadata).get("storage_meta") or StorageMeta()
        saved_by.load_id = self.load_id
        metadata.storage_meta = saved_by
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Take the content of the checkpoint."""
        self.storage_data = metadata.storage_data or {}
        self._take_role(**kwargs)

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
        return plans


def fill(planner: LoadPlanner, request: ReadItem, tensor: Tensor, what: str) -> None:
    """Copy the part of a saved chunk that an item needs to its place."""
    try:
        part = narrow(tensor, request.storage_offsets, request.lengths)
    except (RuntimeError, IndexError, ValueError) as error:
        raise RuntimeError(f"{what}: the item has size {tensor.size()}, which .metadata does not say") from error
    target = planner.resolve_tensor(request).detach()
    if target.size() != part.size():
        raise AssertionError(f"req {request.storage_index} mismatch sizes {target.size()} vs {part.size()}")
    target.copy_(part)
    planner.commit_tensor(request, target)
