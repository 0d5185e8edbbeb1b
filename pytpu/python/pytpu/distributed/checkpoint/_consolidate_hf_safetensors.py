"""Whole tensors of the safetensors files of several ranks."""

from __future__ import annotations

import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytpu as torch
import pytpu.distributed as dist

from ... import _replace_file, safetensors
from ._hf_utils import CUSTOM_METADATA_KEY, SAVED_OFFSETS_KEY, SUFFIX, _gen_file_name, _metadata_fn

if TYPE_CHECKING:
    from pytpu import Tensor

logger: logging.Logger = logging.getLogger(__name__)


def write_index(folder: str, weight_map: dict[str, str], total_size: int) -> None:
    """Write the index file of a folder.

    Args:
        folder: The folder.
        weight_map: The file of each tensor.
        total_size: Bytes of all tensors.
    """
    content = {"metadata": {"total_size": total_size}, "weight_map": weight_map}
    with _replace_file.replacing(os.path.join(folder, _metadata_fn)) as file:
        file.write(json.dumps(content, indent=2).encode())


def _files_of(folder: str) -> dict[str, list[tuple[str, list[int] | None]]]:
    """Return for each tensor the files that have chunks of it, with the first index of the chunk."""
    found: dict[str, list[tuple[str, list[int] | None]]] = {}
    for path in sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(SUFFIX)):
        with safetensors.safe_open(path) as file:
            text = (file.metadata() or {}).get(CUSTOM_METADATA_KEY)
            offsets = None if text is None else json.loads(text)
            for name in file.keys():
                found.setdefault(name, []).append((path, None if offsets is None else offsets[name][SAVED_OFFSETS_KEY]))
    return found


def _whole(name: str, chunks: list[tuple[str, list[int] | None]]) -> Tensor:
    """Return a tensor that is put together from its chunks."""
    parts = []
    for path, offset in chunks:
        with safetensors.safe_open(path) as file:
            tensor = file.get_tensor(name)
        parts.append((offset or [0] * tensor.dim(), tensor))
    size = [max(o[d] + t.size(d) for o, t in parts) for d in range(parts[0][1].dim())]
    whole, filled = torch.empty(size, dtype=parts[0][1].dtype), 0
    for offset, tensor in parts:
        target = whole
        for d, (start, n) in enumerate(zip(offset, tensor.size(), strict=True)):
            target = target.narrow(d, start, n)
        target.copy_(tensor)
        filled += tensor.numel()
    if filled < whole.numel():
        raise RuntimeError(f"the files have {filled} of the {whole.numel()} elements of {name}")
    return whole


def _consolidate(input_dir: str, output_dir: str, files: dict[str, list[str]], threads: int) -> tuple[Any, int]:
    """Write files with whole tensors. Return the file of each tensor, and the bytes of all of them."""
    chunks = _files_of(input_dir)

    def write(file: tuple[str, list[str]]) -> tuple[dict[str, str], int]:
        name, tensors = file
        missing = [fqn for fqn in tensors if fqn not in chunks]
        if missing:
            raise RuntimeError(f"{input_dir}: no file has the tensors {missing}")
        whole = {fqn: _whole(fqn, chunks[fqn]) for fqn in tensors}
        safetensors.save_file(whole, os.path.join(output_dir, name), metadata={"format": "pt"})
        return dict.fromkeys(tensors, name), sum(tensor.nbytes for tensor in whole.values())

    with ThreadPoolExecutor(max(1, threads)) as executor:
        written = list(executor.map(write, files.items()))
    weight_map: dict[str, str] = {}
    for part, _ in written:
        weight_map.update(part)
    return weight_map, sum(size for _, size in written)


def _names(mapping: dict[str, int], largest: int) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for fqn, number in mapping.items():
        files.setdefault(_gen_file_name(number, largest), []).append(fqn)
    return files


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
    files = _names(fqn_to_index_mapping, max(fqn_to_index_mapping.values()))
    weight_map, size = _consolidate(input_dir, output_dir, files, num_threads)
    write_index(output_dir, weight_map, size)


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
    is_alone = not dist.is_available() or not dist.is_initialized()
    rank = 0 if is_alone else dist.get_rank(group=process_group)
    world = 1 if is_alone else dist.get_world_size(group=process_group)
    if is_alone:
        logger.warning("Distributed environment not initialized. Running in single process mode.")
    own = {fqn: number for fqn, number in fqn_to_index_mapping.items() if number % world == rank}
    files = _names(own, max(fqn_to_index_mapping.values()))
    written = _consolidate(input_dir, output_dir, files, num_threads)
    gathered: list[Any] = [None] * world
    if is_alone:
        gathered = [written]
    else:
        dist.all_gather_object(gathered, written, group=process_group)
    if rank == 0:
        weight_map: dict[str, str] = {}
        for part, _ in gathered:
            weight_map.update(part)
        write_index(output_dir, weight_map, sum(size for _, size in gathered))
    if not is_alone:
        dist.barrier(group=process_group)
