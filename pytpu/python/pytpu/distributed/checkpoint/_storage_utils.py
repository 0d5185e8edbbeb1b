"""The storage for a name of a checkpoint."""

from __future__ import annotations

import os
from typing import Any

from .filesystem import FileSystemReader, FileSystemWriter
from .fsspec_filesystem import FsspecReader, FsspecWriter


def storage_for(storage: Any, checkpoint_id: str | os.PathLike[str] | None, reader: bool = False) -> Any:
    """Return `storage`, or a writer or reader for `checkpoint_id`.

    Raises:
        RuntimeError: If no class knows `checkpoint_id`.
    """
    if storage:
        if checkpoint_id is not None:
            storage.reset(checkpoint_id)
        return storage
    if not checkpoint_id:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
    for kind in (FileSystemReader, FsspecReader) if reader else (FileSystemWriter, FsspecWriter):
        if kind.validate_checkpoint_id(checkpoint_id):
            made = kind(checkpoint_id)
            made.reset(checkpoint_id)
            return made
    raise RuntimeError(
        "Cannot detect which StorageReader or StorageWriter to use. Please specify the storage_reader/storage_writer."
    )
