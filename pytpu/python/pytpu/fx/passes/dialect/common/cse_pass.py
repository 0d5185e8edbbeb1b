"""`torch.fx.passes.dialect.common.cse_pass`: compute equal values once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytpu as torch

from .....utils._pytree import tree_flatten
from ....graph import Graph
from ....graph_module import GraphModule
from ....node import Node
from ...infra.pass_base import PassBase, PassResult

_aten = torch.ops.aten
# Operators that draw random numbers: two calls give two values.
_RANDOM = (
    "dropout rand randn randint randperm rand_like randn_like randint_like normal poisson bernoulli multinomial "
    "native_dropout rrelu_with_noise"
).split()
_found = [getattr(_aten, name, None) for name in _RANDOM]
rand_ops = {op for op in _found if op is not None}
# Operators that write to an operand.
inplace_ops = {
    getattr(_aten, f"{name}_")
    for name in "add sub mul div pow lt gt le ge eq ne neg logical_and logical_or logical_xor relu sigmoid".split()
    if hasattr(_aten, f"{name}_")
}


def get_CSE_banned_ops() -> set[Any]:
    """Return the operators whose calls are never the same."""
    return rand_ops | inplace_ops


class CSEPass(PassBase):
    """A pass that lets nodes with the same function and arguments be one node.

    Args:
        banned_ops: Operators whose calls stay.
    """

    def __init__(self, banned_ops: Iterable[Any] | None = None) -> None:
        self.banned_ops = set() if banned_ops is None else set(banned_ops)

    def call(self, graph_module: GraphModule) -> PassResult:
        """Return the module with another graph."""

        def same(node: Node) -> Node:
            return copies[node]

        graph, is_modified = Graph(), False
        copies: dict[Node, Node] = {}
        known: dict[Any, Node] = {}
        for node in graph_module.graph.nodes:
            packet = getattr(node.target, "overloadpacket", node.target)
            stays = node.op in ("placeholder", "output", "get_attr") or packet in self.banned_ops
            key = None if stays else _key(node, same)
            if key is not None and key in known:
                copies[node] = known[key]
                is_modified = True
                continue
            copies[node] = graph.node_copy(node, same)
            if key is not None:
                known[key] = copies[node]
        made = copy.copy(graph_module)
        graph._codegen = graph_module.graph._codegen
        made.graph = graph
        return PassResult(made, is_modified)


def _key(node: Node, same: Callable[[Node], Node]) -> Any:
    """Return a key that is equal for nodes with the same value, or `None` if there is none."""
    leaves, spec = tree_flatten((node.args, dict(node.kwargs)))
    values = tuple((type(leaf), same(leaf) if isinstance(leaf, Node) else leaf) for leaf in leaves)
    try:
        key = (node.op, node.target, values, str(spec))
        hash(key)
    except TypeError:
        return None
    return key
