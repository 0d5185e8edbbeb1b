"""`torch.fx.passes.utils.source_matcher_utils`: the nodes that one function or module of a program became."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..._compatibility import compatibility
from ...graph import Graph
from ...node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@compatibility(is_backward_compatible=False)
@dataclass
class SourcePartition:
    """The nodes of one call of a function or module.

    Attributes:
        nodes: The nodes.
        source: The function, or the type of the module.
        input_nodes: The nodes that are its arguments.
        output_nodes: The nodes of it that others use.
        params: The nodes of it that read attributes.
    """

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def _source_of(node: Node, wanted: list[Any]) -> tuple[Any, str] | None:
    """Return what a node is from, if it is wanted, and the name of the call."""
    stack = node.meta.get("source_fn_stack")
    if stack is not None:
        name, source = stack[-1][0], stack[-1][1]
        return (source, name) if source in wanted else None
    if node.meta.get("torch_fn") is not None:
        name, function = node.meta["torch_fn"]
        if function.split(".")[1] in wanted:
            return function.split(".")[1], name
    modules = node.meta.get("nn_module_stack")
    if node.op != "call_function" or not modules:
        return None
    name, kind = list(modules.values())[-1]
    for source in wanted:
        if isinstance(source, type) and isinstance(kind, type):
            is_source = issubclass(kind, source)
        elif isinstance(source, type):
            is_source = kind == f"{source.__module__}.{source.__qualname__}"
        else:
            is_source = kind == source
        if is_source:
            return source, name
    return None


@compatibility(is_backward_compatible=False)
def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """Return the nodes of each call of some functions and types of modules.

    Args:
        graph: The graph, whose nodes have notes about their source.
        wanted_sources: The functions and types.
        filter_fn: A function that must hold for all nodes of a call.
    """
    found: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        source = _source_of(node, wanted_sources)
        if source is not None:
            found.setdefault(source[0], {}).setdefault(source[1], []).append(node)
    return {
        source: [
            _partition(nodes, source) for nodes in calls.values() if filter_fn is None or all(map(filter_fn, nodes))
        ]
        for source, calls in found.items()
    }


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    inputs = {
        arg
        for node in nodes
        for arg in node.args
        if isinstance(arg, Node) and arg not in inside and arg.op != "get_attr"
    }
    params = {node for node in nodes if node.op == "get_attr"}
    outputs = {node for node in inside - params if any(user not in inside for user in node.users)}
    return SourcePartition(nodes, source, sorted(inputs), sorted(outputs), sorted(params))


@compatibility(is_backward_compatible=False)
def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Return whether a node of the second call uses one of the first."""
    return any(user in subgraph2.nodes for node in subgraph1.nodes for user in node.users)
