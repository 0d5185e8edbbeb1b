"""`torch.fx.experimental.merge_matmul`: one product in place of several with the same right operand."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import pytpu as torch

from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..node import Node
from ..passes.tools_common import legalize_graph
from ..proxy import Proxy


def split_result_tensors(result: Any, inputs: list[Any]) -> Any:
    """Return the rows of a product for each of the operands that were joined."""
    # While the graph is traced again, the numbers of rows are not known.
    sizes = [0] * len(inputs) if isinstance(result, Proxy) else [x.shape[0] for x in inputs]
    return torch.split(result, sizes)


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Return whether a node may depend on another one. Beyond `search_depth` nodes the answer is yes."""
    if a is b:
        return True
    inputs = a.all_input_nodes
    return bool(inputs) and (search_depth == 0 or any(may_depend_on(used, b, search_depth - 1) for used in inputs))


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Return whether no node depends on another one of the list."""
    return not any(may_depend_on(a, b) or may_depend_on(b, a) for a, b in itertools.combinations(nodes, 2))


def merge_matmul(in_mod: torch.nn.Module) -> GraphModule:
    """Return a module in which `a @ c` and `b @ c` are one product of the joined rows of `a` and `b`."""
    gm = symbolic_trace(in_mod)
    graph = gm.graph
    products: dict[Any, list[Node]] = {}
    for node in graph.find_nodes(op="call_function", target=torch.matmul):
        right = node.args[1]
        # Two reads of one attribute are one operand.
        products.setdefault(right.target if right.op == "get_attr" else right, []).append(node)
    for nodes in products.values():
        if len(nodes) < 2 or not are_nodes_independent(nodes):
            continue
        left, right = [node.args[0] for node in nodes], nodes[0].args[1]
        joined = graph.call_function(torch.matmul, (graph.call_function(torch.cat, (left,)), right))
        parts = graph.call_function(split_result_tensors, (joined, left))
        for i, node in enumerate(nodes):
            node.replace_all_uses_with(graph.call_function(operator.getitem, (parts, i)))
            graph.erase_node(node)
    # The new nodes are at the end.
    legalize_graph(gm)
    gm.recompile()
    gm.graph.lint()
    return gm
