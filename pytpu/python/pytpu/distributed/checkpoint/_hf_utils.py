"""Names in checkpoints of safetensors files, as Hugging Face and PyTorch write them."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import pytpu as torch

_metadata_fn = "model.safetensors.index.json"
SUFFIX = ".safetensors"
CUSTOM_METADATA_KEY = "DCP_SHARDING_INFO"
DEFAULT_EXTRA_METADATA_KEY = "__metadata__"
SAVED_OFFSETS_KEY = "saved_offsets"
SHAPE_KEY = "shape"
DATA_KEY = "data"
DTYPE_KEY = "dtype"
DATA_OFFSETS_KEY = "data_offsets"
HF_DCP_VERSION = 1.0
DCP_VERSION_KEY = "DCP_VERSION"
DCP_SHARDING_INFO_KEY = CUSTOM_METADATA_KEY
FORMAT_KEY = "format"
FORMAT_VALUE = "pt"
SHARDED_DIR_NAME = "sharded"

DTYPE_MAP = {
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
    "I8": torch.int8,
    "U8": torch.uint8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "BF16": torch.bfloat16,
}


@dataclass
class _HFStorageInfo:
    """The place of a chunk.

    Args:
        relative_path: Path of the file.
        shape: Size of the chunk.
        dtype: Its dtype.
    """

    relative_path: str
    shape: torch.Size
    dtype: torch.dtype


def _gen_file_name(index: int, largest_index: int, shard_index: int | None = None) -> str:
    """Return the name of file `index` of `largest_index`, or of the part of it that rank `shard_index` writes."""
    shard = "" if shard_index is None else f"shard-{shard_index:05}-"
    return f"{shard}model-{index:05}-of-{largest_index:05}{SUFFIX}"


def _get_safetensors_file_metadata(file_bytes: Any) -> tuple[Any, int]:
    """Return the header of a file, and the position of its data."""
    size = struct.unpack("<Q", file_bytes.read(8))[0]
    return json.loads(file_bytes.read(size)), size + 8


def _get_dtype(dtype_str: str) -> torch.dtype:
    """Return the dtype for a name of the format."""
    return DTYPE_MAP.get(dtype_str, torch.get_default_dtype())


def _get_dcp_custom_metadata(metadata: Any) -> Any:
    """Return the offsets of chunks in the header of a file, or `None`."""
    text = metadata.get(DEFAULT_EXTRA_METADATA_KEY, {}).get(CUSTOM_METADATA_KEY)
    return None if text is None else json.loads(text)
