"""`torch.fx.passes.split_utils`: divide a graph by tags."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from typing import Any

import pytpu as torch

from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from .tools_common import CALLABLE_NODE_OPS, is_node_output_tensor
from .utils import HolderModule, lift_subgraph_as_module

__all__ = [
    "Component",
    "getattr_recursive",
    "move_non_tensor_nodes_on_boundary",
    "setattr_recursive",
    "split_by_tags",
]


@compatibility(is_backward_compatible=False)
def getattr_recursive(obj: Any, name: str) -> Any:
    """Return the attribute at a path, or `None`."""
    for part in name.split("."):
        obj = obj._modules.get(part) if isinstance(obj, torch.nn.ModuleList) else getattr(obj, part, None)
        if obj is None:
            return None
    return obj


@compatibility(is_backward_compatible=False)
def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Set the attribute at a path."""
    *prefix, last = attr.split(".")
    for part in prefix:
        obj = getattr(obj, part)
    setattr(obj, last, value)


@compatibility(is_backward_compatible=False)
@dataclass
class Component:
    """A part of a graph that becomes a module.

    Attributes:
        graph: The graph of the part.
        order: The place among the parts.
        name: The tag.
        input_placeholders: The parameters of the part.
        orig_inputs: The nodes of the whole graph that they stand for.
        orig_outputs: The nodes of the whole graph that the part returns.
        getattr_maps: Reads of attributes, by those of the whole graph.
        constructor_args: Kept for callers.
        gm: The module of the part.
    """

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


def _nodes_in(value: Any) -> list[Node]:
    found: list[Node] = []
    map_arg(value, found.append)  # type: ignore[arg-type]
    return found


@compatibility(is_backward_compatible=False)
def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> Any:
    """Return a module with one child for each tag.

    Each call has an attribute `tag`. Reads of attributes go to the parts that use them.

    Args:
        gm: The module with the graph.
        tags: The tags, in the order of the parts.
        return_fqn_mapping: Return the new path of each attribute too.
        return_tuple: Let the children return a tuple of one result too.
        GraphModuleCls: The class of the module.
    """
    parts = {tag: Component(Graph(), i, tag) for i, tag in enumerate(tags)}
    part_of: dict[Node, Component] = {}
    inner: dict[Node, Node] = {}
    main = Graph()
    outer: dict[Node, Node] = {}
    # Nodes whose values go from one part to another one, or out of the graph.
    crossing: dict[Node, None] = {}
    output: Node | None = None
    for node in gm.graph.nodes:
        if node.op == "output":
            if output is not None:
                raise RuntimeError("Multiple output nodes in graph!")
            output = node
        elif node.op == "placeholder":
            outer[node] = main.placeholder(node.name, type_expr=node.type)
            outer[node].meta = copy.copy(node.meta)
        elif node.op != "get_attr":
            if not hasattr(node, "tag"):
                raise AssertionError(f"Node does not have tag: {node.format_node()}")
            part = part_of[node] = parts[node.tag]
            before = [part_of[used].order for used in node.all_input_nodes if used in part_of]
            if before and part.order < max(before):
                raise AssertionError(
                    f"Component {part.name} order must be >= max of its upstream components, order={part.order} and "
                    f"max={max(before)}"
                )
            inside = functools.partial(_inside, part, part_of, inner, crossing)
            inner[node] = part.graph.node_copy(node, inside)
            inner[node].tag = node.tag  # type: ignore[attr-defined]
    if output is None:
        raise RuntimeError("Graph had no output node!")
    read = [node for node in _nodes_in(output.args[0]) if node.op == "get_attr"]
    for node in read:
        outer[node] = main.get_attr(node.name, type_expr=node.type)
    crossing.update(dict.fromkeys(node for node in _nodes_in(output.args[0]) if node.op != "get_attr"))
    for node in crossing:
        if node.op != "placeholder":
            part_of[node].orig_outputs.append(node)
    paths: dict[str, str] = {}
    for part in parts.values():
        results = tuple(inner[node] for node in part.orig_outputs)
        is_single = len(results) == 1 and not return_tuple
        part.graph.output(results[0] if is_single else results)
        part.gm, moved = lift_subgraph_as_module(gm, subgraph=part.graph, comp_name=part.name)
        paths.update(moved)
        call = main.call_module(part.name, tuple(outer[node] for node in part.orig_inputs))
        for i, node in enumerate(part.orig_outputs):
            outer[node] = call if is_single else torch.fx.Proxy(call)[i].node  # type: ignore[index]
    main.output(map_arg(output.args[0], outer.__getitem__))
    main._codegen = gm.graph._codegen
    root = HolderModule({part.name: part.gm for part in parts.values()})
    for node in read:
        setattr(root, node.name, getattr_recursive(gm, str(node.target)))
    made = GraphModuleCls(root, main)
    return (made, paths) if return_fqn_mapping else made


def _inside(
    part: Component,
    part_of: dict[Node, Component],
    inner: dict[Node, Node],
    crossing: dict[Node, None],
    used: Node,
) -> Node:
    """Return the node of a part for a node of the whole graph: its copy, a read of an attribute, or a parameter."""
    if used.op == "get_attr":
        if not isinstance(used.target, str):
            raise RuntimeError(f"Expected get_attr node target to be a str, got {type(used.target)}")
        if used not in part.getattr_maps:
            part.getattr_maps[used] = part.graph.get_attr(used.target, type_expr=used.type)
            part.getattr_maps[used].meta = copy.copy(used.meta)
        return part.getattr_maps[used]
    if used.op != "placeholder" and part_of[used] is part:
        return inner[used]
    if used not in part.orig_inputs:
        part.orig_inputs.append(used)
        part.input_placeholders.append(part.graph.placeholder(used.name, type_expr=used.type))
        part.input_placeholders[-1].meta = copy.copy(used.meta)
        crossing[used] = None
    return part.input_placeholders[part.orig_inputs.index(used)]


@compatibility(is_backward_compatible=False)
def move_non_tensor_nodes_on_boundary(subgraphs: list[Any]) -> None:
    """Move nodes whose values are not tensors from parts for a backend to the parts that use them.

    Args:
        subgraphs: Parts with `nodes`, a list, and `is_acc`. A node moves with all that depend on it in its part, if
            they lead to one other part only.
    """
    place = {node: i for i, part in enumerate(subgraphs) for node in part.nodes}

    def users(node: Node) -> list[Node]:
        return [user for user in node.users if user.op in CALLABLE_NODE_OPS and user in place]

    def leaves(node: Node, i: int) -> bool:
        return any(place[user] != i for user in users(node))

    for i, part in enumerate(subgraphs):
        if not part.is_acc:
            continue
        queue = [node for node in part.nodes if not is_node_output_tensor(node) and leaves(node, i)]
        done: set[Node] = set()
        while queue:
            node = queue.pop(0)
            if node in done or place.get(node) != i:
                continue
            done.add(node)
            targets = {place[user] for user in users(node)} - {i}
            if len(targets) != 1:
                print(
                    f"Cannot move non-tensor node {node.name} on boundary because it has children in multiple subgraphs"
                )
                continue
            target = targets.pop()
            moved: dict[Node, None] = {}
            stack = [node]
            while stack:
                current = stack.pop()
                if current in moved or place[current] == target:
                    continue
                if place[current] != i:
                    break
                moved[current] = None
                stack.extend(users(current))
            else:
                for current in moved:
                    part.nodes.remove(current)
                    subgraphs[target].nodes.append(current)
                    place[current] = target
                    kinds = ["acc" if subgraphs[j].is_acc else "gpu" for j in (i, target)]
                    print(
                        f"In order to move the non-tensor node {node.name} on boundary, moved node {current.name} from "
                        f"{kinds[0]}_{i} to {kinds[1]}_{target}"
                    )
                queue += [
                    used
                    for used in node.all_input_nodes
                    if used.op in CALLABLE_NODE_OPS
                    and not is_node_output_tensor(used)
                    and used not in done
                    and place.get(used) == i
                ]
