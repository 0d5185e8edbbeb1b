"""Checkpoints of safetensors files: their names, the places of chunks in their headers, and whole tensors of them."""

from __future__ import annotations

import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytpu as torch
import pytpu.distributed as dist

from ... import _replace_file, safetensors
from ._pieces import narrow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytpu import Tensor

logger: logging.Logger = logging.getLogger(__name__)

INDEX_NAME = "model.safetensors.index.json"
_PLACES, _OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"

# A chunk: the path of its file, its first index, its size and the name of its dtype.
Chunk = tuple[str, list[int], list[int], str]


def file_name(number: int, count: int, rank: int | None = None) -> str:
    """Return the name of file `number` of `count`, or of the part of it that a rank writes. All begin at 1."""
    shard = "" if rank is None else f"shard-{rank:05}-"
    return f"{shard}model-{number:05}-of-{count:05}.safetensors"


def described_chunks(offsets: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Return the text fields of a header that say where the chunks of a file begin."""
    places = {name: {_OFFSETS: list(offset)} for name, offset in offsets.items()}
    return {_PLACES: json.dumps(places), "DCP_VERSION": "1.0", "format": "pt"}


def chunks_of(path: str) -> dict[str, Chunk]:
    """Return the chunks of a file by the names of their tensors.

    Raises:
        RuntimeError: If the file is damaged. The text names it.
    """
    try:
        with safetensors.safe_open(path) as file:
            text = (file.metadata() or {}).get(_PLACES)
            places = None if text is None else json.loads(text)
            chunks = {}
            for name in file.keys():
                piece = file.get_slice(name)
                size = list(piece.get_shape())
                offset = [0] * len(size) if places is None else [int(n) for n in places[name][_OFFSETS]]
                if len(offset) != len(size) or min(offset, default=0) < 0:
                    raise ValueError(f"{name} has the size {size} and the offset {offset}")
                chunks[name] = (path, offset, size, piece.get_dtype())
            return chunks
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise RuntimeError(f"{path}: the file is damaged: {type(error).__name__}: {error}") from error


def chunks_by_tensor(paths: Iterable[str]) -> dict[str, list[Chunk]]:
    """Return the chunks of each tensor in some safetensors files."""
    found: dict[str, list[Chunk]] = {}
    for path in sorted(path for path in paths if path.endswith(".safetensors")):
        for name, chunk in chunks_of(path).items():
            found.setdefault(name, []).append(chunk)
    return found


def whole_size(chunks: list[Chunk]) -> list[int]:
    """Return the size of a tensor. The files do not say it: it ends where its last chunk ends."""
    ends = [[a + n for a, n in zip(offset, size, strict=True)] for _, offset, size, _ in chunks]
    return [max(end) for end in zip(*ends, strict=True)]


def _whole(name: str, chunks: list[Chunk]) -> Tensor:
    """Return a tensor that is put together from its chunks."""
    whole, filled = torch.empty(0), 0
    for number, (path, offset, size, _) in enumerate(chunks):
        with safetensors.safe_open(path) as file:
            part = file.get_tensor(name)
        if number == 0:
            whole = torch.empty(whole_size(chunks), dtype=part.dtype)
        narrow(whole, offset, size).copy_(part)
        filled += part.numel()
    if filled < whole.numel():
        raise RuntimeError(f"the files have {filled} of the {whole.numel()} elements of {name}")
    return whole


def write_index(folder: str, file_of: dict[str, str], nbytes: int) -> None:
    """Write the index file of a folder.

    Args:
        folder: The folder.
        file_of: The file of each tensor.
        nbytes: Bytes of all tensors.
    """
    content = {"metadata": {"total_size": nbytes}, "weight_map": file_of}
    with _replace_file.replacing(os.path.join(folder, INDEX_NAME)) as file:
        file.write(json.dumps(content, indent=2).encode())


def consolidate_safetensors_files(
    input_dir: str, output_dir: str, fqn_to_index_mapping: dict[str, int], num_threads: int = 1
) -> None:
    """Write whole tensors from the files of several ranks.

    Args:
        input_dir: Folder of the files of the ranks.
        output_dir: Folder of the new files and of their index.
        fqn_to_index_mapping: Number of the new file of each tensor, from 1.
        num_threads: Number of threads that write, each a file of its own.
    """
    numbers = set(fqn_to_index_mapping.values())
    written = _write_whole(input_dir, output_dir, fqn_to_index_mapping, numbers, num_threads)
    _write_joined_index(output_dir, [written])


def consolidate_safetensors_files_on_every_rank(
    input_dir: str,
    output_dir: str,
    fqn_to_index_mapping: dict[str, int],
    num_threads: int = 1,
    process_group: Any = None,
) -> None:
    """Write whole tensors from the files of several ranks.

    Each rank writes some of the new files, and rank 0 writes the index.

    Args:
        input_dir: Folder of the files of the ranks.
        output_dir: Folder of the new files and of their index.
        fqn_to_index_mapping: Number of the new file of each tensor, from 1.
        num_threads: Number of threads of each rank.
        process_group: The group. `None` is the default group.
    """
    if not dist.is_available() or not dist.is_initialized():
        logger.warning("There is no process group: this process writes all files.")
        consolidate_safetensors_files(input_dir, output_dir, fqn_to_index_mapping, num_threads)
        return
    rank, world = dist.get_rank(process_group), dist.get_world_size(process_group)
    own = {number for number in fqn_to_index_mapping.values() if number % world == rank}
    written: list[Any] = [None] * world
    dist.all_gather_object(
        written, _write_whole(input_dir, output_dir, fqn_to_index_mapping, own, num_threads), group=process_group
    )
    if rank == 0:
        _write_joined_index(output_dir, written)
    # The index exists when this function returns, on all ranks.
    dist.barrier(group=process_group)


def _write_whole(
    input_dir: str, output_dir: str, file_of: dict[str, int], numbers: set[int], threads: int
) -> dict[str, tuple[str, int]]:
    """Write the files of some numbers. Return the file and the bytes of each of their tensors."""
    chunks = chunks_by_tensor(os.path.join(input_dir, name) for name in os.listdir(input_dir))

    def write(number: int) -> dict[str, tuple[str, int]]:
        names = [name for name, of_name in file_of.items() if of_name == number]
        missing = [name for name in names if name not in chunks]
        if missing:
            raise RuntimeError(f"{input_dir}: no file has the tensors {missing}")
        whole = {name: _whole(name, chunks[name]) for name in names}
        target = file_name(number, max(file_of.values()))
        safetensors.save_file(whole, os.path.join(output_dir, target), metadata={"format": "pt"})
        return {name: (target, tensor.nbytes) for name, tensor in whole.items()}

    with ThreadPoolExecutor(max(1, threads)) as executor:
        return {name: place for part in executor.map(write, sorted(numbers)) for name, place in part.items()}


def _write_joined_index(folder: str, written: list[dict[str, tuple[str, int]]]) -> None:
    places = {name: place for part in written for name, place in part.items()}
    write_index(folder, {name: file for name, (file, _) in places.items()}, sum(n for _, n in places.values()))
