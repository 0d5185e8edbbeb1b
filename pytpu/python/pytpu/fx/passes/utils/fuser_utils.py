"""`torch.fx.passes.utils.fuser_utils`: make modules of parts of a graph."""

from __future__ import annotations

import copy
import heapq

import pytpu as torch

from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from ..tools_common import NodeList, NodeSet, stable_topological_sort
from .common import lift_subgraph_as_module

__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "topo_sort",
    "validate_partition",
]


@compatibility(is_backward_compatible=False)
def topo_sort(nodes: NodeList) -> NodeList:
    """Return the nodes with each after the ones that it uses, and else in their order."""
    place = {node: i for i, node in enumerate(nodes)}
    waits = {node: sum(used in place for used in node.all_input_nodes) for node in nodes}
    ready = [place[node] for node in nodes if not waits[node]]
    made = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        made.append(node)
        for user in node.users:
            if user in waits:
                waits[user] -= 1
                if not waits[user]:
                    heapq.heappush(ready, place[user])
    if len(made) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return made


@compatibility(is_backward_compatible=False)
def validate_partition(partition: NodeList) -> bool:
    """Return whether nodes can become one: no value goes out of them and, through other nodes, back in."""
    inside = set(partition)
    stack = [user for node in partition for user in node.users if user not in inside]
    seen: NodeSet = set()
    while stack:
        node = stack.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            stack.extend(node.users)
    return True


@compatibility(is_backward_compatible=False)
def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: NodeList,
    module_name: str,
    partition_lookup_table: dict[Node, int | None] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """Return a module of a part of a graph.

    Args:
        gm: The module with the graph.
        nodes: The nodes, each after the ones that it uses.
        module_name: The name of the class of the module.
        partition_lookup_table: The same nodes as keys.
        always_return_tuple: Let the module return a tuple of one result too.

    Returns:
        The module, the nodes of `gm` that are its arguments, and those that are its results.
    """
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
        if node not in gm.graph._find_nodes_lookup_table:
            raise AssertionError(f"{node} is not found in graph module {gm._get_name()}")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside = dict.fromkeys(nodes) if partition_lookup_table is None else partition_lookup_table
    inputs = list(dict.fromkeys(used for node in nodes for used in node.all_input_nodes if used not in inside))
    if all(node.op == "placeholder" for node in inputs):
        inputs.sort()
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name, type_expr=node.type)
        copies[node].meta = copy.copy(node.meta)
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda used: copies[used])
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    results = tuple(copies[node] for node in outputs)
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    graph.lint()
    made, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return made, tuple(inputs), tuple(outputs)


@compatibility(is_backward_compatible=False)
def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Insert a call of a module, and let it replace nodes.

    Args:
        gm: The module with the graph.
        sub_gm: The module to call. It becomes a child with the name of its class.
        orig_inputs: The arguments.
        orig_outputs: The nodes that the results replace.
        insertion_point: The node after which the call is. Without it, the last of `orig_outputs`.
    """
    name = sub_gm.__class__.__name__
    gm.add_submodule(name, sub_gm)
    if insertion_point is None:
        if not orig_outputs:
            raise AssertionError(
                "Cannot determine insertion point: no insertion_point provided and orig_outputs is empty. Pass the "
                "last partition node as insertion_point."
            )
        insertion_point = max(orig_outputs)
    with gm.graph.inserting_after(insertion_point):
        call = gm.graph.call_module(name, args=orig_inputs)
    if len(orig_outputs) == 1 and not isinstance(sub_gm.graph.output_node().args[0], tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
    elif orig_outputs:
        with gm.graph.inserting_before(call.next):
            for i, node in enumerate(orig_outputs):
                item = torch.fx.Proxy(call)[i].node  # type: ignore[index]
                node.replace_all_uses_with(item, propagate_meta=True)
        call.meta["val"] = tuple(node.meta.get("val") for node in orig_outputs)
    return gm


@compatibility(is_backward_compatible=False)
def erase_nodes(gm: GraphModule, nodes: NodeList) -> None:
    """Erase nodes, the last first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


@compatibility(is_backward_compatible=False)
def fuse_by_partitions(
    gm: GraphModule,
    partitions: list[dict[Node, int | None]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Make a module of each partition, and call it in place of its nodes. `gm` is changed, and returned."""
    for i, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        made, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{i}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, made, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    return gm
