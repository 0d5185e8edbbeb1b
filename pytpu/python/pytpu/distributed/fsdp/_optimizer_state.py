"""States of optimizers of sharded parameters: by name or number, whole or sharded."""

from __future__ import annotations

from ... import Tensor, empty
from .. import broadcast_object_list
from ..distributed_c10d import get_rank
from ..tensor import DTensor, distribute_tensor
from ._parameter import on_mesh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...nn import Module
    from ...optim import Optimizer

#: Parts of names that wrappers add.
_ADDED = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")


def _plain(name: str) -> str:
    for added in _ADDED:
        name = name.replace(added, "")
    return name


def _names(model: Module, optim: Optimizer) -> list[list[str]]:
    """Return the names of the parameters of each parameter group."""
    by_id = {id(p): _plain(name) for name, p in model.named_parameters()}
    return [[by_id[id(p)] for p in group["params"]] for group in optim.param_groups]


def _whole(value: Any) -> Any:
    return value.full_tensor() if isinstance(value, DTensor) else value


def named(
    model: Module, optim: Optimizer, state_dict: dict[str, Any], *, is_full: bool, rank0_only: bool, offload: bool
) -> dict[str, Any]:
    """Return the state dict of an optimizer, with names in place of numbers.

    Args:
        model: the model.
        optim: the optimizer.
        state_dict: its state dict.
        is_full: whether tensors are gathered.
        rank0_only: whether other ranks than 0 get an empty dict.
        offload: whether tensors are moved to `cpu`.
    """
    names = _names(model, optim)
    flat = [name for group in names for name in group]
    numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
    state = {}
    for name, number in zip(flat, numbers):
        if number not in state_dict["state"]:
            continue
        values = {}
        for key, value in state_dict["state"][number].items():
            if is_full:
                value = _whole(value)
            # A copy, since the optimizer goes on.
            if isinstance(value, DTensor):
                value = value.detach().clone()
            elif isinstance(value, Tensor):
                value = value.detach().to("cpu" if offload else value.device, copy=True)
            values[key] = value
        state[name] = values
    if rank0_only and is_full and get_rank() != 0:
        return {}
    groups = [{**group, "params": own} for group, own in zip(state_dict["param_groups"], names)]
    return {"state": state, "param_groups": groups}


def numbered(
    model: Module, optim: Optimizer, state_dict: dict[str, Any], from_first: bool, keeps_names: bool
) -> dict[str, Any]:
    """Return a state dict with names as an optimizer loads it: with numbers, and sharded as the parameters are.

    Args:
        model: the model.
        optim: the optimizer.
        state_dict: the state dict with names.
        from_first: whether rank 0 has it, and the other ranks nothing.
        keeps_names: whether names stay.
    """
    if from_first:
        # The tensors follow one by one. What is sent here is small.
        message = [_without_tensors(state_dict) if get_rank() == 0 else None]
        broadcast_object_list(message, 0)
        received: Any = message[0]
        outline = received if get_rank() != 0 else state_dict
    else:
        outline = state_dict
    parameters = {_plain(name): p for name, p in model.named_parameters()}
    names = _names(model, optim)
    numbers = {name: i for i, name in enumerate(name for group in names for name in group)}
    state: dict[Any, Any] = {}
    for name, values in outline["state"].items():
        parameter = parameters.get(name)
        key = name if keeps_names else numbers.get(name, name)
        state[key] = {k: _as_parameter(v, parameter, from_first) for k, v in values.items()}
    groups = []
    by_first = {tuple(sorted(group["params"])): group for group in outline["param_groups"]}
    for own, group in zip(names, outline["param_groups"]):
        group = by_first.get(tuple(sorted(own)), group)
        groups.append({**group, "params": own if keeps_names else [numbers[name] for name in own]})
    return {"state": state, "param_groups": groups}


class _Absent:
    """A tensor that rank 0 has, described for the other ranks."""

    def __init__(self, like: Tensor) -> None:
        self.shape, self.dtype = tuple(like.shape), like.dtype


def _without_tensors(state_dict: dict[str, Any]) -> dict[str, Any]:
    state = {
        name: {k: _Absent(v) if isinstance(v, Tensor) and v.ndim > 0 else v for k, v in values.items()}
        for name, values in state_dict["state"].items()
    }
    return {"state": state, "param_groups": state_dict["param_groups"]}


def _as_parameter(value: Any, parameter: Any, from_first: bool) -> Any:
    """Return a value, sharded as the parameter is if it has its shape."""
    is_whole = isinstance(value, (Tensor, _Absent)) and not isinstance(value, DTensor)
    if not is_whole or not isinstance(parameter, DTensor) or tuple(value.shape) != tuple(parameter.shape):
        # A copy, since the optimizer writes to it.
        return value.detach().clone() if isinstance(value, Tensor) else value
    if isinstance(value, _Absent):
        value = empty(value.shape, dtype=value.dtype)
    mesh, placements = parameter.device_mesh, parameter.placements
    made = distribute_tensor(value.detach(), mesh, placements, src_data_rank=0 if from_first else None)
    local, device = made._local_tensor, parameter._local_tensor.device
    return made if local.device == device else on_mesh(local.to(device), mesh, placements, tuple(made.shape))


def rekeyed(model: Module, optim: Any, state_dict: dict[str, Any], is_named: bool) -> dict[str, Any]:
    """Return a state dict with names in place of numbers, or the reverse, for a model that is not wrapped."""
    names = [name for group in _names(model, optim) for name in group]
    table: dict[Any, Any] = dict(enumerate(names)) if is_named else {name: i for i, name in enumerate(names)}
    groups = [{**g, "params": [table.get(p, p) for p in g["params"]]} for g in state_dict["param_groups"]]
    return {"state": {table.get(k, k): v for k, v in state_dict["state"].items()}, "param_groups": groups}
