"""`torch.fx.passes.graph_manipulation`: change targets, and count bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytpu as torch

from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, Target, map_arg
from .shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


@compatibility(is_backward_compatible=False)
def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Change the kind and the target of all nodes that have a kind and a target."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = map_arg((node.args, node.kwargs), lambda used: copies[used])
            copies[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            copies[node] = graph.node_copy(node, lambda used: copies[used])
    fx_module.graph = graph


@compatibility(is_backward_compatible=False)
class size_bytes(NamedTuple):
    """Bytes of a result, and of the result with the parameters."""

    output_size: int
    total_size: int


@compatibility(is_backward_compatible=False)
def get_size_of_all_nodes(fx_module: GraphModule, args: list[torch.Tensor] | None = None) -> None:
    """Set `size_bytes` of all nodes. With `args`, `ShapeProp` runs first."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


@compatibility(is_backward_compatible=False)
def get_tensor_meta(node: Node) -> Any:
    """Return what `ShapeProp` noted.

    Raises:
        RuntimeError: It has not run.
    """
    meta: TensorMetadata | None = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run."
        )
    return meta


@compatibility(is_backward_compatible=False)
def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Return the bytes of the result of a node, and those with the parameters of the module that it calls."""
    meta = get_tensor_meta(node)
    count = meta.shape.numel()
    own = 0
    if node.op == "call_module":
        own = sum(parameter.numel() for parameter in fx_module.get_submodule(str(node.target)).parameters())
    item = torch.tensor([], dtype=meta.dtype).element_size()
    return size_bytes(item * count, item * (count + own))
