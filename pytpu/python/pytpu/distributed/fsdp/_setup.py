"""What `FullyShardedDataParallel` finds out and does before it shards parameters."""

from __future__ import annotations

import os

from ... import Tensor, accelerator, device as _device, no_grad
from ...nn import Module
from .. import all_gather_object, broadcast, get_global_rank
from ..device_mesh import DeviceMesh, init_device_mesh
from ..distributed_c10d import _get_default_group, get_process_group_ranks, get_world_size
from ..tensor import DTensor
from ._mesh import FSDPMeshInfo, _get_mesh_info
from ._state import state_of
from .api import ShardingStrategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


def ignored_in(module: Module, modules: Any, states: Any) -> set[int]:
    """Return the ids of the modules and parameters that stay as they are."""
    if modules is not None and states is not None:
        raise ValueError(
            "Cannot pass both ignored_modules and ignored_states at the same time. Please just pass ignored_states."
        )
    given = list(modules if modules is not None else states or ())
    is_modules = all(isinstance(each, Module) for each in given)
    if modules is not None and not is_modules:
        raise TypeError(f"`ignored_modules` should be an iterable of `torch.nn.Module`s but got {given}")
    if not is_modules and not all(isinstance(each, Tensor) for each in given):
        types = sorted({str(type(each)) for each in given})
        raise ValueError(
            f"ignored_states expects all nn.Parameter or all nn.Module list elements but got types {types}"
        )
    ignored: set[int] = set()
    for each in given:
        if isinstance(each, Module) and state_of(each) is not None:
            raise ValueError("`ignored_modules` should not include FSDP modules")
        if isinstance(each, Module):
            ignored |= {id(below) for below in each.modules()} | {id(p) for p in each.parameters()}
        else:
            ignored.add(id(each))
    return ignored


def compute_device(module: Module, given: int | _device | None, mesh: DeviceMesh | None) -> _device:
    """Return the device that the module computes on."""
    if isinstance(given, int):
        kind = accelerator._device()
        return _device(kind.type if kind is not None else "cpu", given)
    if given is not None:
        return _device(given)
    if mesh is not None:
        return _device(mesh.device_type)
    kinds = {p.device.type for p in module.parameters()} - {"meta"}
    if len(kinds) > 1:
        raise RuntimeError(f"FSDP only supports single device modules but got params on {kinds}")
    if kinds:
        return _device(kinds.pop())
    kind = accelerator.current_accelerator(check_available=True)
    return _device("cpu" if kind is None else kind.type)


#: Meshes that wrappers have made, by their shape, groups and device. Nested wrappers share one.
_meshes: dict[Any, DeviceMesh] = {}


def mesh_of(strategy: ShardingStrategy, groups: Any, mesh: DeviceMesh | None, device: _device) -> FSDPMeshInfo:
    """Return the mesh of a strategy."""
    is_hybrid = strategy in _HYBRID
    if is_hybrid and groups is None and mesh is None:
        # As PyTorch does: shard within a host, and replicate between hosts.
        here = int(os.environ.get("LOCAL_WORLD_SIZE", get_world_size()))
        mesh = _make((get_world_size() // here, here), None, device)
    if is_hybrid and mesh is not None and mesh.ndim != 2:
        raise ValueError(f"Expected device_mesh to have ndim=2 but got {mesh.ndim}")
    if is_hybrid and mesh is None:
        if not isinstance(groups, tuple) or len(groups) != 2:
            raise ValueError(
                "Expected process_group to be passed in as either None or Tuple[dist.ProcessGroup, dist.ProcessGroup] "
                f"but got {type(groups)}"
            )
        mesh = _make((groups[1].size(), groups[0].size()), groups, device)
    if strategy is ShardingStrategy.NO_SHARD and mesh is None:
        # Each rank has a mesh dimension of its own to shard over.
        size = get_world_size() if groups is None else groups.size()
        if groups is not None and size != get_world_size():
            raise NotImplementedError("ShardingStrategy.NO_SHARD: process_group must have all ranks")
        mesh = _make((size, 1), None, device)
    if mesh is None:
        mesh = _make((get_world_size() if groups is None else groups.size(),), groups, device)
    return _get_mesh_info(mesh)


def _make(shape: tuple[int, ...], groups: Any, device: _device) -> DeviceMesh:
    names = ("replicate", "shard") if len(shape) == 2 else ("shard",)
    engines = tuple(id(group) for group in (groups if isinstance(groups, tuple) else (groups,)))
    key = (shape, engines, device.type, id(_get_default_group()))
    if key in _meshes:
        return _meshes[key]
    if groups is None:
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
    elif isinstance(groups, tuple):
        shards, replicas = groups
        rows: list[Any] = [None] * replicas.size()
        all_gather_object(rows, get_process_group_ranks(shards), replicas)
        mesh = DeviceMesh.from_group([replicas, shards], device.type, rows, mesh_dim_names=names)
    else:
        mesh = DeviceMesh.from_group(groups, device.type, mesh_dim_names=names)
    _meshes[key] = mesh
    return mesh


def materialize(places: Any, init: Callable[[Module], None] | None, device: _device) -> None:
    """Give values to the parameters on device `meta`."""
    if init is not None and not callable(init):
        raise ValueError(f"Expected {init} to be callable but got {type(init)}")
    modules = {id(m): m for p, _, where in places if p.device.type == "meta" for m, _ in where}
    for module in modules.values():
        if init is not None:
            init(module)
            continue
        module.to_empty(device=device, recurse=False)
        with no_grad():
            module.reset_parameters()  # type: ignore[operator]  # Modules with parameters have it, or raise.


def cast_buffers(module: Module, dtype: Any) -> None:
    for each in module.modules():
        for name, buffer in each._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                each._buffers[name] = buffer.to(dtype)


def copy_from_first(module: Module, places: Any, info: FSDPMeshInfo, device: _device) -> None:
    groups = [info.shard_process_group] + ([info.replicas] if info.replicas is not None else [])
    tensors = [p for p, _, _ in places] + list(module.buffers())
    with no_grad():
        for tensor in tensors:
            if isinstance(tensor, DTensor):
                continue
            value = tensor.detach().to(device).contiguous()
            for group in groups:
                broadcast(value, get_global_rank(group, 0), group)
            tensor.detach().copy_(value)
