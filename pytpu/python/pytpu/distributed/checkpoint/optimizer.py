"""`torch.distributed.checkpoint.optimizer`: a function for states of the class `FullyShardedDataParallel`."""

from __future__ import annotations

from typing import Any

import pytpu as torch

from ..tensor import DTensor
from ._traverse import set_element
from .metadata import STATE_DICT_TYPE, TensorStorageMetadata
from .state_dict_loader import _load_state_dict
from .state_dict_saver import _is_alone
from .utils import Team

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor

    from .planner import LoadPlanner
    from .storage import StorageReader

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(
    model_state_dict: STATE_DICT_TYPE,
    optimizer_key: str,
    storage_reader: StorageReader,
    planner: LoadPlanner | None = None,
) -> STATE_DICT_TYPE:
    """Read the state of an optimizer, sharded as the parameters of a model are. All ranks call this function.

    Each rank reads only its parts. New programs use `get_optimizer_state_dict` and `load` instead.

    Args:
        model_state_dict: The sharded parameters by their names. The state of a parameter that has its size gets its
            placements.
        optimizer_key: The key under which the state was saved.
        storage_reader: The reader of the checkpoint.
        planner: The planner. By default a `DefaultLoadPlanner`.

    Returns:
        A dict with the state under `optimizer_key`. Tensors without a parameter of their size are whole, on `cpu`.

    Raises:
        CheckpointException: On all ranks, if one rank fails.
    """
    is_alone = _is_alone(False, "load")
    team = Team(None, is_alone)
    metadata = team.shared("metadata", lambda: None, lambda _: storage_reader.read_metadata())
    paths = metadata.planner_data or {}
    values: STATE_DICT_TYPE = {}
    for name, saved in metadata.state_dict_metadata.items():
        path = paths.get(name, (name,))
        if path[0] == optimizer_key:
            owner = next((model_state_dict[key] for key in path if key in model_state_dict), None)
            set_element(values, path, _empty(saved, owner) if isinstance(saved, TensorStorageMetadata) else None)
    _load_state_dict(values, storage_reader, no_dist=is_alone, planner=planner)
    return values


def _empty(saved: TensorStorageMetadata, parameter: Any) -> Tensor | DTensor:
    """Return memory for a saved tensor, sharded as the parameter that it belongs to."""
    dtype = saved.properties.dtype
    if not isinstance(parameter, torch.Tensor) or parameter.size() != saved.size:
        return torch.empty(saved.size, dtype=dtype)
    return torch.empty_like(parameter.detach(), dtype=dtype)
