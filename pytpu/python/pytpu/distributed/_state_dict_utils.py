"""State dicts whose tensors are spread over ranks: gathered, distributed, and copied to the host."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Mapping
from typing import Any

import pytpu as torch
import pytpu.distributed as dist

from .tensor import DTensor, distribute_tensor

STATE_DICT_TYPE = dict[str, Any]
OBJ_PATH = tuple[str | int, ...]
FLATTEN_MAPPING = dict[str, OBJ_PATH]


def _map_tensors(value: Any, of_tensor: Callable[[Any], Any], type_check: bool) -> Any:
    """Return a nested value with `of_tensor` applied to its tensors.

    Raises:
        ValueError: If `type_check` is true, and there is an object that is no tensor, number, text or container.
    """
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if value is None or isinstance(value, (int, float, str, bytes, io.BytesIO)):
        return value
    if isinstance(value, dict):
        return {key: _map_tensors(item, of_tensor, type_check) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        made = [_map_tensors(item, of_tensor, type_check) for item in value]
        return tuple(made) if isinstance(value, tuple) else made
    if type_check:
        raise ValueError(f"Unexpected value type {type(value)}")
    return copy.deepcopy(value)


def _only_on(state_dict: STATE_DICT_TYPE, ranks_only: tuple[int, ...], pg: Any) -> STATE_DICT_TYPE:
    return state_dict if not ranks_only or dist.get_rank(pg) in ranks_only else {}


def _gather_state_dict(
    state_dict: STATE_DICT_TYPE,
    *,
    pg: Any = None,
    device: torch.device | None = None,
    cpu_offload: bool = False,
    ranks_only: tuple[int, ...] = (),
    type_check: bool = True,
) -> STATE_DICT_TYPE:
    """Return a state dict whose tensors are whole. All ranks call this function.

    Args:
        state_dict: The state dict.
        pg: The group of `ranks_only`.
        device: Accepted for compatibility.
        cpu_offload: Whether the tensors are on `cpu`.
        ranks_only: The ranks that get the result. Others get an empty dict. An empty tuple is all ranks.
        type_check: Whether other objects than tensors, numbers, texts and containers are refused.
    """
    keep = not ranks_only or dist.get_rank(pg) in ranks_only

    def whole(tensor: Any) -> Any:
        if isinstance(tensor, DTensor):
            tensor = tensor.full_tensor()
        # Other ranks free the tensor at once.
        return None if not keep else tensor.cpu() if cpu_offload else tensor

    return _only_on(_map_tensors(state_dict, whole, type_check), ranks_only, pg)


def _offload_state_dict_to_cpu(
    state_dict: STATE_DICT_TYPE, *, ranks_only: tuple[int, ...] = (), type_check: bool = True
) -> STATE_DICT_TYPE:
    """Return a state dict whose tensors are on `cpu`. Sharded tensors stay sharded."""
    return _only_on(_map_tensors(state_dict, lambda tensor: tensor.cpu(), type_check), ranks_only, None)


def _create_cpu_state_dict(
    state_dict: STATE_DICT_TYPE, pin_memory: bool = False, share_memory: bool = False
) -> STATE_DICT_TYPE:
    """Return a state dict with memory on `cpu` for the tensors of another one. `_copy_state_dict` fills it.

    Args:
        state_dict: The other state dict.
        pin_memory: Accepted for compatibility. This package has no pinned memory.
        share_memory: Whether the memory is shared by processes.
    """

    def memory(tensor: Any) -> Any:
        if isinstance(tensor, DTensor):
            return tensor.cpu()
        made = torch.empty_like(tensor.detach(), device="cpu")
        return made.share_memory_() if share_memory else made

    return _map_tensors(state_dict, memory, False)


def _copy_state_dict(
    state_dict: STATE_DICT_TYPE, copy_state_dict: STATE_DICT_TYPE, non_blocking: bool = False, type_check: bool = True
) -> STATE_DICT_TYPE:
    """Copy the tensors of a state dict into those of another one with the same keys. Return it with the other values.

    Args:
        state_dict: The state dict that is copied.
        copy_state_dict: What `_create_cpu_state_dict` returned.
        non_blocking: Accepted for compatibility.
        type_check: Whether other objects than tensors, numbers, texts and containers are refused.
    """

    def copied(source: Any, target: Any) -> Any:
        if isinstance(source, torch.Tensor):
            if isinstance(source, DTensor):
                target.to_local().copy_(source.to_local())
            else:
                target.copy_(source.detach())
            return target
        if isinstance(source, dict):
            if not isinstance(target, dict) or source.keys() != target.keys():
                raise ValueError("the state dicts have different keys")
            return {key: copied(item, target[key]) for key, item in source.items()}
        if isinstance(source, (list, tuple)):
            made = [copied(item, t) for item, t in zip(source, target, strict=True)]
            return tuple(made) if isinstance(source, tuple) else made
        # Neither a tensor nor a container is left here.
        return _map_tensors(source, torch.clone, type_check)

    return copied(state_dict, copy_state_dict)


def _check_state_dict_similarity(state_dict: STATE_DICT_TYPE, compared_state_dict: STATE_DICT_TYPE) -> bool:
    """Return whether two state dicts have the same keys, lengths and types, and tensors of the same sizes and dtypes.

    Other values may differ.
    """

    def is_alike(a: Any, b: Any) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, torch.Tensor):
            return a.shape == b.shape and a.dtype == b.dtype
        if isinstance(a, Mapping):
            return a.keys() == b.keys() and all(is_alike(value, b[key]) for key, value in a.items())
        if isinstance(a, (list, tuple)):
            return len(a) == len(b) and all(map(is_alike, a, b))
        return True

    return is_alike(state_dict, compared_state_dict)


def _distributed_as(local: Any, full: torch.Tensor, device: torch.device) -> Any:
    """Return a whole tensor in the form of a local one."""
    full = full.detach().to(device)
    if not isinstance(local, DTensor):
        return full
    return distribute_tensor(full, local.device_mesh, local.placements)


def _distribute_state_dict(
    full_state_dict: STATE_DICT_TYPE, local_state_dict: STATE_DICT_TYPE, device: torch.device, pg: Any = None
) -> None:
    """Replace values of a flat state dict by those of another one, which all ranks have and whose tensors are whole.

    Args:
        full_state_dict: The state dict with whole tensors.
        local_state_dict: The state dict that is changed. Tensors that it shards are sharded.
        device: Device of the new tensors.
        pg: Accepted for compatibility.
    """
    for key, value in full_state_dict.items():
        if not torch.is_tensor(value):
            local_state_dict[key] = value
        elif value.dim() == 0:
            local_state_dict[key] = value.cpu()
        elif local_state_dict.get(key) is not None:
            local_state_dict[key] = _distributed_as(local_state_dict[key], value, device)


def _broadcast_state_dict(
    full_state_dict: STATE_DICT_TYPE,
    local_state_dict: STATE_DICT_TYPE,
    device: torch.device,
    pg: Any = None,
    strict: bool = False,
    cpu_offload: bool = False,
) -> None:
    """Replace values of a flat state dict by those of rank 0, whose tensors are whole. All ranks call this function.

    Args:
        full_state_dict: The state dict with whole tensors. Only that of rank 0 is used.
        local_state_dict: The state dict that is changed. Tensors that it shards are sharded.
        device: Device of the new tensors.
        pg: The group.
        strict: Whether keys that rank 0 does not have are removed.
        cpu_offload: Whether the new tensors are moved to `cpu`.
    """
    is_source = dist.get_rank() == 0
    devices = (pg or dist.distributed_c10d._get_default_group())._device_types
    through = device if device.type in {d.type for d in devices} else devices[0]
    described: list[Any] = [None]
    if is_source:
        described[0] = {key: _description(value) for key, value in full_state_dict.items()}
    dist.broadcast_object_list(described, src=0, group=pg)
    for key, value in described[0].items():
        if not isinstance(value, _Described):
            if key in local_state_dict:
                local_state_dict[key] = value
            continue
        full = (
            full_state_dict[key].detach().to(through).contiguous()
            if is_source
            else torch.empty(value.size, dtype=value.dtype, device=through)
        )
        dist.broadcast(full, src=0, group=pg)
        local = local_state_dict.get(key)
        if local is None:
            continue
        made = _distributed_as(local, full, device)
        local_state_dict[key] = made.cpu() if cpu_offload else made
    if strict:
        for key in local_state_dict.keys() - described[0].keys():
            del local_state_dict[key]


class _Described:
    """The size and dtype of a tensor that follows."""

    def __init__(self, size: tuple[int, ...], dtype: torch.dtype) -> None:
        self.size, self.dtype = size, dtype


def _description(value: Any) -> Any:
    if not torch.is_tensor(value):
        return value
    return value.cpu() if value.dim() == 0 else _Described(tuple(value.size()), value.dtype)


def _flatten_state_dict(state_dict: STATE_DICT_TYPE) -> tuple[STATE_DICT_TYPE, FLATTEN_MAPPING]:
    """Return the values of a nested state dict by flat names, and the path of each flat name.

    All dicts, lists and tuples are entered.

    Raises:
        ValueError: If two values have the same flat name.
    """
    flattened: STATE_DICT_TYPE = {}
    mappings: FLATTEN_MAPPING = {}

    def visit(path: OBJ_PATH, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                visit((*path, str(key)), item)
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                visit((*path, i), item)
        else:
            name = ".".join(map(str, path))
            if name in flattened:
                raise ValueError(f"duplicated flatten key {name}")
            flattened[name], mappings[name] = value, path

    visit((), state_dict)
    return flattened, mappings


def _unflatten_state_dict(state_dict: STATE_DICT_TYPE, mapping: FLATTEN_MAPPING) -> STATE_DICT_TYPE:
    """Return the nested state dict for what `_flatten_state_dict` returned. Tuples are lists in it."""
    from .checkpoint._nested_dict import unflatten_state_dict

    return unflatten_state_dict(state_dict, mapping)
