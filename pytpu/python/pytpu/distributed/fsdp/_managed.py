"""Which parameters and buffers a call of `fully_shard` takes.

Some names are those that PyTorch's tests import.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

from ...nn import Module, Parameter
from .._composable._marks import is_replicated
from ._state import state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ... import Tensor, device as _device

    Place = tuple[Module, str]

#: Parameters that were sharded, and that other modules may still have.
replaced: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


@dataclass
class ParamModuleInfo:
    """The modules that have a parameter.

    Args:
        module: the first of them.
        param_name: the name of the parameter there.
        shared_modules: the others. A module that has several places in the model has several entries.
        shared_param_names: the names there.
    """

    module: Module
    param_name: str
    shared_modules: list[Module] = field(default_factory=list)
    shared_param_names: list[str] = field(default_factory=list)

    def places(self) -> list[Place]:
        """Return each module with the name, once."""
        pairs = [(self.module, self.param_name), *zip(self.shared_modules, self.shared_param_names)]
        return list({(id(module), name): (module, name) for module, name in pairs}.values())


def _get_managed_modules(root_modules: Sequence[Module], ignored_params: set[Parameter] | None = None) -> list[Module]:
    """Return modules and their submodules. A module that is sharded or replicated already is left out."""
    found: dict[int, Module] = {}

    def visit(module: Module) -> None:
        if id(module) in found or state_of(module) is not None or is_replicated(module):
            return
        found[id(module)] = module
        for child in module.children():
            visit(child)

    for module in root_modules:
        visit(module)
    return list(found.values())


def _get_managed_states(
    modules: Iterable[Module], ignored_params: set[Parameter] | None = None
) -> tuple[list[Parameter], list[Tensor]]:
    """Return the parameters and buffers of modules, each once."""
    ignored = {id(parameter) for parameter in ignored_params or ()}
    parameters: dict[int, Parameter] = {}
    buffers: dict[int, Tensor] = {}
    for module in modules:
        for parameter in module._parameters.values():
            if parameter is not None and id(parameter) not in ignored:
                parameters.setdefault(id(parameter), parameter)
        for buffer in module._buffers.values():
            if buffer is not None:
                buffers.setdefault(id(buffer), buffer)
    return list(parameters.values()), list(buffers.values())


def _get_param_module_infos(params: Sequence[Parameter], modules: Module | Sequence[Module]) -> list[ParamModuleInfo]:
    """Return the modules that have each parameter."""
    wanted = {id(parameter) for parameter in params}
    found: dict[int, ParamModuleInfo] = {}
    for root in (modules,) if isinstance(modules, Module) else modules:
        for _, module in root.named_modules(remove_duplicate=False):
            for name, parameter in module._parameters.items():
                if parameter is None or id(parameter) not in wanted:
                    continue
                if id(parameter) not in found:
                    found[id(parameter)] = ParamModuleInfo(module, name)
                    continue
                info = found[id(parameter)]
                info.shared_modules.append(module)
                info.shared_param_names.append(name)
    return [found[id(parameter)] for parameter in params]


def places_of(modules: Sequence[Module], ignored: set[Parameter]) -> list[tuple[Parameter, str, list[Place]]]:
    """Return the parameters that a call shards, each with its name, and all modules that have it with its name there.

    Args:
        modules: the modules of the call.
        ignored: parameters that stay as they are.

    Raises:
        ValueError: if a parameter has no dimensions, or is shared with modules that were sharded before.
    """
    parameters, _ = _get_managed_states(_get_managed_modules(modules), ignored)
    names: dict[int, str] = {}
    for root in modules:
        for name, parameter in root.named_parameters():
            names.setdefault(id(parameter), name)
    for parameter in parameters:
        name = names[id(parameter)]
        if replaced.get(id(parameter)) is parameter:
            raise ValueError(
                f"Parameter '{name}' is shared with a parameter already managed by another FSDP group. For "
                "shared/tied parameters, use fully_shard([module_a, module_b]) to place them in the same FSDP group."
            )
        if parameter.ndim == 0:
            raise ValueError(
                f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1."
            )
    infos = _get_param_module_infos(parameters, modules)
    return [(parameter, names[id(parameter)], info.places()) for parameter, info in zip(parameters, infos)]


def move_buffers(modules: Sequence[Module], device: _device) -> None:
    """Move the buffers of modules to a device. Shared buffers stay shared."""
    moved: dict[int, Tensor] = {}
    for module in _get_managed_modules(modules):
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.device.type not in (device.type, "meta"):
                if id(buffer) not in moved:
                    moved[id(buffer)] = buffer.to(device)
                module._buffers[name] = moved[id(buffer)]
