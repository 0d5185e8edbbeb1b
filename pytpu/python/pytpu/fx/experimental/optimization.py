"""`torch.fx.experimental.optimization`: fold batch norms into layers, and remove dropout, for inference."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytpu as torch

from ... import nn
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from .._symbolic_trace import Tracer, symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Node, Target

__all__ = [
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]


def _parent_name(target: str) -> tuple[str, str]:
    """Return the path of the owner of a module, and its name there."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, torch.nn.Module]) -> bool:
    """Return whether a node calls a module of the second type with the result of one of the first type."""
    if not node.args:
        return False
    return all(
        isinstance(each, Node) and each.op == "call_module" and type(modules.get(str(each.target))) is kind
        for kind, each in zip(pattern, (node.args[0], node))
    )


def replace_node_module(node: Node, modules: dict[str, torch.nn.Module], new_module: torch.nn.Module) -> None:
    """Replace the module that a node calls."""
    if not isinstance(node.target, str):
        raise AssertionError(f"Expected str target, got {type(node.target)}")
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: torch.nn.Module, inplace: bool = False, no_trace: bool = False) -> torch.nn.Module:
    """Return a model whose batch norms are part of the convolution or linear layer before them.

    Args:
        model: The model, in evaluation mode.
        inplace: Change its layers. Else they are copied.
        no_trace: Use the graph of `model`, which is a graph module.

    Example:
        >>> import pytpu as torch
        >>> from torch.fx.experimental.optimization import fuse
        >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4)).eval()
        >>> [node.name for node in fuse(model).graph.nodes]
        ['input_1', '_0', 'output']
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for first, second in (
        (nn.Conv1d, nn.BatchNorm1d),
        (nn.Conv2d, nn.BatchNorm2d),
        (nn.Conv3d, nn.BatchNorm3d),
        (nn.Linear, nn.BatchNorm1d),
    ):
        for node in graph.nodes:
            if not matches_module_pattern((first, second), node, modules):
                continue
            layer, norm = modules[node.args[0].target], modules[node.target]
            if len(node.args[0].users) > 1 or not norm.track_running_stats:
                continue
            fold: Any = fuse_linear_bn_eval if first is nn.Linear else fuse_conv_bn_eval
            fused = fold(layer, norm)
            replace_node_module(node.args[0], modules, fused)
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph)


class _DropoutRemover(Transformer):
    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(self.submodules[str(target)], nn.Dropout):
            return super().call_module(target, args, kwargs)
        if len(args) != 1:
            raise AssertionError(f"Expected 1 arg for Dropout, got {len(args)}")
        return args[0]


def remove_dropout(model: nn.Module) -> nn.Module:
    """Return a model without its dropout layers."""
    return _DropoutRemover(symbolic_trace(model)).transform()


def extract_subgraph(orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """Return a module of some nodes of a graph.

    Args:
        orig_module: The module with the attributes.
        nodes: The nodes, in order.
        inputs: The nodes that are its arguments.
        outputs: The nodes that are its results, which are a list.
    """
    graph = Graph()
    copies: dict[Node, Node] = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda used: copies[used])
    graph.output([copies[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(
    model: torch.nn.Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> torch.nn.Module:
    """Return a model for inference: batch norms are folded into layers, and dropout is removed.

    Args:
        model: The model, in evaluation mode.
        pass_config: `"conv_bn_fuse"` and `"remove_dropout"` say whether that is done.
            `"mkldnn_layout_optimize"` has no effect: there is one layout of tensors here.
        tracer: The class of the tracer of the result.
    """
    config = {"conv_bn_fuse": True, "remove_dropout": True, "mkldnn_layout_optimize": {}, **(pass_config or {})}
    if not isinstance(config["mkldnn_layout_optimize"], dict) and config["mkldnn_layout_optimize"] is not False:
        raise RuntimeError("mkldnn_layout_optimize config is not a dict")
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    if config["mkldnn_layout_optimize"] is False:
        return model
    graph = tracer().trace(copy.deepcopy(model))
    graph.lint()
    return GraphModule(model, graph)
