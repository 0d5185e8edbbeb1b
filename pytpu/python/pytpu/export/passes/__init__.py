"""``torch.export.passes``: changes of exported programs."""

from __future__ import annotations

from typing import Any

import pytpu as torch

from ... import fx
from ..._subclasses.fake_tensor import FakeTensor
from ...utils import _pytree as pytree
from ..exported_program import ExportedProgram

__all__ = ["move_to_device_pass"]


def move_to_device_pass(ep: ExportedProgram, location: torch.device | str | dict[str, str]) -> ExportedProgram:
    """Move a program to a device: weights, examples, and devices in the graph. Change it in place, and return it.

    Args:
        ep: the program.
        location: the device, or a dict from the devices of the program to others.
    """

    def new(device: Any) -> torch.device:
        if isinstance(location, dict):
            return torch.device(location.get(str(device), str(device)))
        return torch.device(location)

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(value.detach().to(new(value.device)), value.requires_grad)
        return value.to(new(value.device))

    def described(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = value.to(new(value.device))
        symbolic = value.__dict__.get("_symbolic")
        if symbolic is not None and isinstance(made, FakeTensor):
            made._describe(*symbolic)
        return made

    # Names with one tensor keep one.
    once: dict[int, Any] = {}
    for table in (ep._state_dict, ep._constants):
        for name, value in table.items():
            if id(value) not in once:
                once[id(value)] = moved(value)
            table[name] = once[id(value)]
    if ep._example_inputs is not None:
        ep._example_inputs = pytree.tree_map(moved, ep._example_inputs)
    for module in ep.graph_module.modules():
        if not isinstance(module, fx.GraphModule):
            continue
        for node in module.graph.nodes:
            node.args = fx.node.map_aggregate(node.args, lambda a: new(a) if isinstance(a, torch.device) else a)
            node.kwargs = fx.node.map_aggregate(node.kwargs, lambda a: new(a) if isinstance(a, torch.device) else a)
            if "val" in node.meta:
                node.meta["val"] = pytree.tree_map(described, node.meta["val"])
        module.recompile()
    ep.validate()
    return ep
