"""`torch.fx.passes.annotate_getitem_nodes`: types of items, from the types of tuples and lists."""

from __future__ import annotations

import operator
import typing
from typing import Any

import pytpu as torch

from ..graph import Graph


def _item_type(kind: Any, index: int) -> Any:
    parts = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if origin is tuple:
        if len(parts) == 2 and parts[1] is ...:
            return parts[0]
        if len(parts) <= index:
            raise AssertionError(f"Index {index} out of range for parameterized_types (len={len(parts)})")
        return parts[index]
    if origin is list:
        if len(parts) != 1:
            raise AssertionError(f"Expected 1 parameterized type, got {len(parts)}")
        return parts[0]
    if kind is torch.Tensor or not hasattr(kind, "_fields"):
        return None
    return kind.__annotations__[kind._fields[index]]


def annotate_getitem_nodes(graph: Graph) -> None:
    """Give items of tuples, lists and named tuples their types, where the sequence has one."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target is operator.getitem and node.args[0].type:
            found = _item_type(node.args[0].type, node.args[1])
            if found is not None:
                node.type = found
