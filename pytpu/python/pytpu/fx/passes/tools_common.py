"""`torch.fx.passes.tools_common`: names of targets, order of nodes, and groups of nodes without tensors."""

from __future__ import annotations

import collections
import heapq
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytpu as torch

from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, _as_torch_name, _get_qualified_name

__all__ = [
    "FxNetAccFusionsFinder",
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

Tensors = tuple[torch.Tensor] | list[torch.Tensor]
TensorOrTensors = torch.Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


@compatibility(is_backward_compatible=False)
def get_acc_ops_name(k: Any) -> str:
    """Return the name of a class or function with its module, or a text as it is."""
    if isinstance(k, str):
        return k
    module = _as_torch_name(k.__module__ or "")
    if "acc_ops" in module:
        module = "acc_ops"
    return f"{module.replace('torch._ops', 'torch.ops')}.{k.__name__}"


@compatibility(is_backward_compatible=False)
def get_node_target(submodules: Mapping[str, torch.nn.Module], node: Node) -> str:
    """Return the name of what a node calls: a method, a function with its module, or the type of a module."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found {node.op}")
    target: Any = node.target
    if node.op == "call_function":
        is_acc = target.__module__ is not None and "acc_ops" in target.__module__
        return f"acc_ops.{target.__name__}" if is_acc else _get_qualified_name(target)
    if not isinstance(target, str):
        raise AssertionError(f"Expected str target, got {type(target)}")
    if node.op == "call_method":
        return target
    module = submodules[target]
    return get_acc_ops_name(getattr(module, "_base_class_origin", type(module)))


@compatibility(is_backward_compatible=False)
def is_node_output_tensor(node: Node) -> bool:
    """Return whether the value of a node is a tensor. `ShapeProp` must have run."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, torch.Tensor)


@compatibility(is_backward_compatible=False)
class FxNetAccFusionsFinder:
    """A search for groups of nodes that hand each other values which are not tensors, so that they stay together.

    Args:
        module: The module with the graph.
        acc_nodes: The nodes that can be in groups. Those of a group that needs another node are removed from it.
    """

    def __init__(self, module: GraphModule, acc_nodes: NodeSet) -> None:
        self.module, self.acc_nodes = module, acc_nodes
        self.nodes = list(module.graph.nodes)
        self.node_index = {node: i for i, node in enumerate(self.nodes)}

    @dataclass
    class FusionGroup:
        """A group: its first place in the graph, its nodes, its arguments, and the nodes to look at."""

        top_node_idx: int
        nodes: NodeSet
        inputs: NodeSet
        nodes_need_process: NodeSet

        def add_node(self, node: Node) -> None:
            """Add a node, unless it is in the group."""
            if node not in self.nodes:
                self.nodes_need_process.add(node)
                self.nodes.add(node)
                self.inputs.discard(node)
                self.inputs.update(n for n in node.all_input_nodes if _is_call(n) and n not in self.nodes)

    def recursive_add_node(
        self, fusion_group: FusionGroup, inputs: Iterable[Node], visited: NodeSet | None = None
    ) -> bool:
        """Add the nodes on the ways from the group to `inputs`. Return whether there is one."""
        visited = set() if visited is None else visited
        for node in sorted(inputs, key=self.node_index.__getitem__) if isinstance(inputs, set) else inputs:
            if node in visited or not _is_call(node) or self.node_index[node] < fusion_group.top_node_idx:
                continue
            visited.add(node)
            if node in fusion_group.nodes:
                return True
            if self.recursive_add_node(fusion_group, node.all_input_nodes, visited):
                fusion_group.add_node(node)
                return True
        return False

    def __call__(self) -> dict[Node, NodeSet]:
        """Return the group of each node that is in one."""
        found: dict[Node, NodeSet] = {}
        for start in [node for node in self.nodes if node in self.acc_nodes]:
            if start in found or not _is_call(start) or "tensor_meta" in start.meta or start not in self.acc_nodes:
                continue
            group = self.FusionGroup(self.node_index[start], {start}, set(start.all_input_nodes), {start})
            while group.nodes_need_process:
                node = min(group.nodes_need_process, key=self.node_index.__getitem__)
                group.nodes_need_process.remove(node)
                self.recursive_add_node(group, group.inputs)
                users = [] if "tensor_meta" in node.meta else list(node.users)
                sources = [used for used in node.all_input_nodes if "tensor_meta" not in used.meta]
                for other in (*users, *sources):
                    if _is_call(other) and other not in group.nodes:
                        group.add_node(other)
                        group.top_node_idx = min(group.top_node_idx, self.node_index[other])
                        self.recursive_add_node(group, group.inputs)
            if group.nodes <= self.acc_nodes:
                found.update(dict.fromkeys(group.nodes, group.nodes))
            else:
                self.acc_nodes -= group.nodes
        return found


def _is_call(node: Node) -> bool:
    return node.op in CALLABLE_NODE_OPS


# Arithmetic of sizes goes before other operations that are ready.
_FIRST = [getattr(operator, name) for name in "add mul sub floordiv truediv mod le lt ge gt eq ne".split()]


def _waits(graph: Graph) -> dict[Node, int]:
    return {node: len(node.all_input_nodes) for node in graph.nodes}


def _replace_graph(gm: GraphModule, graph: Graph) -> GraphModule:
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


@compatibility(is_backward_compatible=False)
def legalize_graph(gm: GraphModule) -> GraphModule:
    """Sort the nodes, so that each is after the ones that it uses. `gm` is changed, and returned.

    Raises:
        RuntimeError: Nodes use each other.
    """
    waits, made = _waits(gm.graph), Graph()
    ready = collections.deque(node for node, count in waits.items() if not count)
    copies: dict[Node, Node] = {}
    while ready:
        node = ready.popleft()
        copies[node] = made.node_copy(node, lambda used: copies[used])
        for user in node.users:
            waits[user] -= 1
            if not waits[user]:
                is_first = user.op == "call_function" and user.target in _FIRST
                (ready.appendleft if is_first else ready.append)(user)
    if len(copies) < len(waits):
        raise RuntimeError(f"Input graph has cycles, unable to add {[node for node, count in waits.items() if count]}")
    return _replace_graph(gm, made)


@compatibility(is_backward_compatible=False)
def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Sort the nodes, so that each is after the ones that it uses, and else in their order.

    Raises:
        AssertionError: Nodes use each other.
    """
    waits, made = _waits(gm.graph), Graph()
    nodes = list(waits)
    place = {node: i for i, node in enumerate(nodes)}
    ready = [i for i, node in enumerate(nodes) if not waits[node]]
    copies: dict[Node, Node] = {}
    while ready:
        node = nodes[heapq.heappop(ready)]
        copies[node] = made.node_copy(node, lambda used: copies[used])
        for user in node.users:
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, place[user])
    if len(copies) != len(nodes):
        raise AssertionError(f"Input graph has cycles, unable to add {[node for node in nodes if waits[node]]}")
    return _replace_graph(gm, made)
