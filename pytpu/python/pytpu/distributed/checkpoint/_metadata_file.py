"""The pickle in the file `.metadata`.

It names PyTorch's classes, also if this package has not taken the name `torch`. PyTorch reads the file with
`pickle`, which runs any code that the file names. This module reads it with the machine of `_weights_only`, which
makes nothing but the classes of the table below, and what `torch.load` allows.
"""

from __future__ import annotations

import os
import pathlib
import pickle
from typing import Any

import pytpu as torch

from ... import _file_globals, _weights_only, serialization
from . import metadata as _classes
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PROTOCOL = 4
# The number of items in all lists that the paths of a file may ask for, besides 16 for each path.
_MAX_ITEMS = 1 << 20


def _refuse_tensors(self: Any, obj: Any) -> None:
    if isinstance(obj, (torch.Tensor, torch.UntypedStorage, torch.TypedStorage)):
        raise TypeError("the metadata of a checkpoint cannot hold tensors")


class _Pickler(pickle.Pickler):
    """The pickler of the standard library. It is right if this package has taken the name `torch`."""

    persistent_id = _refuse_tensors


class _RenamingPickler(serialization._Pickler):
    """A pickler that writes names of this package as names of `torch`. It takes ten times as long."""

    persistent_id = _refuse_tensors

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, torch.layout):
            return serialization._Global("torch.serialization", "_get_layout"), (repr(obj),)
        return super().reducer_override(obj)


def _has_name_of_torch() -> bool:
    return Metadata.__module__ == "torch.distributed.checkpoint.metadata"


def write(metadata: Metadata, file: Any) -> None:
    """Write the content of a checkpoint to an open file."""
    kind = _Pickler if _has_name_of_torch() else _RenamingPickler
    kind(file, _PROTOCOL).dump(metadata)


def _path(*parts: str) -> pathlib.PurePath:
    return pathlib.Path(*parts)


def _path_of_windows(*parts: str) -> pathlib.PurePath:
    return (pathlib.Path if os.name == "nt" else pathlib.PureWindowsPath)(*parts)


def _names() -> dict[str, Any]:
    """Return what `.metadata` may name, besides what `torch.load` allows."""
    from .filesystem import _StorageInfo

    names: dict[str, Any] = {"torch.distributed.checkpoint.filesystem._StorageInfo": _StorageInfo}
    for name in (*_classes.__all__, "_MEM_FORMAT_ENCODING"):
        names[f"torch.distributed.checkpoint.metadata.{name}"] = getattr(_classes, name)
    # The places of these classes before PyTorch 2.3.
    old = "torch.distributed._shard.sharded_tensor.metadata"
    names[f"{old}.TensorProperties"] = TensorProperties
    names[f"{old}.MEM_FORMAT_ENCODING"] = _classes._MEM_FORMAT_ENCODING
    for module in ("pathlib", "pathlib._local"):
        for kind in ("PosixPath", "PurePosixPath"):
            names[f"{module}.{kind}"] = _path
        for kind in ("WindowsPath", "PureWindowsPath"):
            names[f"{module}.{kind}"] = _path_of_windows
    return names


def read(data: bytes, name: object) -> Metadata:
    """Return the content of a checkpoint.

    Args:
        data: The bytes of the file.
        name: The name of the file, for errors.

    Raises:
        pickle.UnpicklingError: If the file is damaged, or names a class that is not allowed.
    """
    names = _names()

    def allowed(full: str) -> Any:
        return names.get(full) or _file_globals.find_allowed(full)

    machine = _weights_only.Machine(
        data, allowed, _no_storage, _build, _file_globals.bounded_calls, protocol=pickle.HIGHEST_PROTOCOL
    )
    try:
        metadata = machine.run()
        _check(metadata)
    except _weights_only.NotAllowed as error:
        raise pickle.UnpicklingError(f"{name}: {error}") from None
    except Exception as error:
        raise pickle.UnpicklingError(f"{name}: the file is damaged: {type(error).__name__}: {error}") from error
    return metadata


def _no_storage(saved: Any) -> Any:
    raise pickle.UnpicklingError("tensors are not allowed in the metadata of a checkpoint")


def _build(machine: Any, instance: Any, state: Any) -> None:
    check = _CHECKS.get(type(instance))
    if check is not None:
        check(state)
    _file_globals.build(machine, instance, state)


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise pickle.UnpicklingError(text)


def _is_size(value: Any) -> bool:
    return isinstance(value, torch.Size) and all(type(n) is int and n >= 0 for n in value)


def _check_index(state: Any) -> None:
    """Raise an error for a name that cannot be hashed in constant time."""
    _require(isinstance(state, dict) and type(state.get("fqn")) is str, "MetadataIndex: the name is no string")
    offset, index = state.get("offset"), state.get("index")
    _require(offset is None or _is_size(offset), "MetadataIndex: the offset is no size")
    _require(index is None or type(index) is int, "MetadataIndex: the index is no int")


def _check_properties(state: Any) -> None:
    _require(
        isinstance(state, tuple) and len(state) in (5, 6) and isinstance(state[0], torch.dtype),
        "TensorProperties: the state has no dtype",
    )


_CHECKS: dict[type, Callable[[Any], None]] = {MetadataIndex: _check_index, TensorProperties: _check_properties}


def _check(metadata: Any) -> None:
    """Raise an error for a content that no save has written."""
    _require(isinstance(metadata, Metadata), f"expected Metadata, got {type(metadata).__name__}")
    _require(isinstance(getattr(metadata, "state_dict_metadata", None), dict), "no state_dict_metadata")
    for name, value in metadata.state_dict_metadata.items():
        _require(type(name) is str, f"the name {name!r} is no string")
        if isinstance(value, TensorStorageMetadata):
            _check_tensor(name, value)
        else:
            _require(isinstance(value, BytesStorageMetadata), f"{name}: unknown kind {type(value).__name__}")
    if isinstance(metadata.planner_data, dict):
        _check_paths(metadata.planner_data)


def _check_paths(paths: dict[Any, Any]) -> None:
    """Raise an error for paths to lists that are far longer than the file. `set_element` fills lists up to an index."""
    sizes: dict[tuple[Any, ...], int] = {}
    for name, path in paths.items():
        if not isinstance(path, tuple):
            continue
        for i, key in enumerate(path):
            is_index = type(key) is int and key >= 0
            _require(is_index or type(key) is str, f"{name}: the path {path!r} is not possible")
            if is_index:
                sizes[path[:i]] = max(sizes.get(path[:i], 0), key + 1)
    _require(sum(sizes.values()) <= _MAX_ITEMS + 16 * len(paths), "the paths need lists that are too long")


def _check_tensor(name: str, tensor: TensorStorageMetadata) -> None:
    _require(
        isinstance(tensor.properties, TensorProperties) and _is_size(tensor.size) and isinstance(tensor.chunks, list),
        f"{name}: no size, properties or chunks",
    )
    n = len(tensor.size)
    for chunk in tensor.chunks:
        _require(
            isinstance(chunk, ChunkStorageMetadata)
            and _is_size(chunk.offsets)
            and _is_size(chunk.sizes)
            and len(chunk.offsets) == len(chunk.sizes) == n
            and all(a + m <= size for a, m, size in zip(chunk.offsets, chunk.sizes, tensor.size, strict=True)),
            f"{name}: a chunk is outside of the tensor",
        )
