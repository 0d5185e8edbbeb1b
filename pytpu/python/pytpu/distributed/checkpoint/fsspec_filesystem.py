"""`torch.distributed.checkpoint.fsspec_filesystem`: checkpoints in file systems of the package `fsspec`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._extension import StreamTransformExtension
from .filesystem import FileSystemBase, FileSystemReader, FileSystemWriter, SerializationFormat

__all__ = ["FsspecReader", "FsspecWriter"]


def _function_of_fsspec() -> Any:
    """Return the function that finds the file system of a URL, or `None` if `fsspec` is not installed."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        return None
    return url_to_fs


class _UrlFiles(FileSystemBase):
    """The operations on files, by `fsspec`.

    Args:
        options: Options of the file system.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.fs: Any = None

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[Any, None, None]:
        """Return a context manager that opens a file. If an error interrupts writing, the file is removed."""
        is_written = "r" not in mode or "+" in mode
        try:
            with self.fs.open(os.fspath(path), mode) as stream:
                yield stream
        except BaseException:
            with contextlib.suppress(Exception):
                if is_written:
                    self.fs.rm(path)
            raise

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        """Return the path of a file in a folder."""
        return os.path.join(path, suffix)

    def init_path(self, path: str | os.PathLike[str]) -> str | os.PathLike[str]:
        """Find the file system of a URL."""
        from fsspec.core import url_to_fs

        self.fs, _ = url_to_fs(path, **self.options)
        return path

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Rename a file."""
        self.fs.rename(path, new_path)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Make a folder and its parents, unless it exists."""
        self.fs.makedirs(path, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether `fsspec` is installed and knows the protocol of a URL."""
        find = None if isinstance(checkpoint_id, Path) else _function_of_fsspec()
        if find is None:
            return False
        try:
            find(checkpoint_id)
        except ValueError:
            return False
        return True

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Return whether there is a file."""
        return self.fs.exists(path)

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Remove a file."""
        self.fs.rm(path)

    def ls(self, path: str | os.PathLike[str]) -> list[str]:
        """Return the paths of the files in a folder."""
        return self.fs.ls(path, detail=False)


class _AtUrl:
    """What writers and readers of URLs share."""

    _options: dict[str, Any]

    def _make_file_system(self) -> FileSystemBase:
        return _UrlFiles(self._options)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Return whether `fsspec` is installed and knows the protocol of a URL."""
        return _UrlFiles.validate_checkpoint_id(checkpoint_id)


class FsspecWriter(_AtUrl, FileSystemWriter):
    """A writer of checkpoints to a URL.

    Args:
        path: The URL, such as `"gs://bucket/step-100"`.
        single_file_per_rank: If `False`, each item gets a file of its own.
        sync_files: Whether files are flushed to the disk, where the file system can.
        thread_count: Number of threads that write, each to a file of its own.
        per_thread_copy_ahead: Accepted for compatibility.
        cache_staged_state_dict: Whether `async_save` keeps the copy of the state dict for the next call.
        overwrite: If `False`, an existing checkpoint is an error.
        _extensions: Extensions that change the bytes of items.
        serialization_format: Format of the files.
        kwargs: Options of the file system.
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
        **kwargs: Any,
    ) -> None:
        self._options = kwargs
        super().__init__(
            path,
            single_file_per_rank,
            sync_files,
            thread_count,
            per_thread_copy_ahead,
            cache_staged_state_dict,
            overwrite,
            _extensions,
            serialization_format,
        )


class FsspecReader(_AtUrl, FileSystemReader):
    """A reader of checkpoints at a URL.

    Args:
        path: The URL.
        kwargs: Options of the file system.
    """

    def __init__(self, path: str | os.PathLike[str], **kwargs: Any) -> None:
        self._options = kwargs
        super().__init__(path)
