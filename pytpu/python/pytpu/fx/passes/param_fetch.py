"""`torch.fx.passes.param_fetch`: attributes of modules that a backend reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytpu as torch

from ...nn import Module
from .._compatibility import compatibility
from ..graph_module import GraphModule

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


@compatibility(is_backward_compatible=False)
def default_matching(name: str, target_version: int) -> str:
    """Return the name of an attribute in another version of a class: the same."""
    return name


_nn = torch.nn
# The version, the attributes, and the names in other versions, by class.
module_fetch_book: dict[type, tuple[int, list[str], Callable[[str, int], str]]] = {
    _nn.Linear: (1, ["weight", "bias"], default_matching),
    _nn.Conv2d: (
        1,
        ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"],
        default_matching,
    ),
    _nn.BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"], default_matching),
    _nn.AdaptiveAvgPool2d: (1, [], default_matching),
    _nn.MaxPool2d: (
        1,
        ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"],
        default_matching,
    ),
    _nn.ReLU: (1, ["inplace"], default_matching),
}


@compatibility(is_backward_compatible=False)
def extract_attrs_for_lowering(mod: Module) -> dict[str, Any]:
    """Return the attributes of a module that `module_fetch_book` lists, and its type as `"name"`.

    Raises:
        RuntimeError: Its class is not listed, or has a later version.
    """
    name = torch.typename(mod)
    if type(mod) not in module_fetch_book:
        raise RuntimeError(f"{name} is not in the module_fetch_book yet, please add it to the module_fetch_book")
    version, names, matching = module_fetch_book[type(mod)]
    if version < mod._version:
        raise RuntimeError(
            f"Fetcher version {version} try to fetch {name} version {mod._version}, please upgrade the "
            "module_fetch_book"
        )
    return {"name": name, **{each: getattr(mod, matching(each, mod._version)) for each in names}}


@compatibility(is_backward_compatible=False)
def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Set `attrs_for_lowering` of all nodes that call a module, also within graph modules."""
    for node in fx_module.graph.find_nodes(op="call_module"):
        module = fx_module.get_submodule(node.target)
        if isinstance(module, GraphModule):
            lift_lowering_attrs_to_nodes(module)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(module)
