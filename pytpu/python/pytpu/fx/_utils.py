"""`torch.fx._utils`: texts of graphs for logs."""

from __future__ import annotations

import sys
from typing import Any

from .node import Node


class _Lazy:
    """A text that is made when a log writes it."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def __str__(self) -> str:
        return self.make()


def lazy_format_graph_code(name: str, gm: Any, maybe_id: int | None = None, **kwargs: Any) -> Any:
    """Return an object whose text is the code of a graph module."""
    kwargs.setdefault("print_output", False)
    if "colored" in kwargs and not sys.stdout.isatty():
        kwargs["colored"] = False
    said = name if maybe_id is None else f"{name} {maybe_id}"
    file = gm.forward.__code__.co_filename
    return _Lazy(lambda: _format_graph_code(f"===== {said} =====\n", file, gm.print_readable(**kwargs)))


def _format_graph_code(name: str, filename: str, graph_str: str) -> str:
    return f"TRACED GRAPH\n {name} {filename} {graph_str}\n"


def first_call_function_nn_module_stack(graph: Any) -> dict[str, Any] | None:
    """Return the modules whose forward has the first call of a function."""
    stacks = (
        node.meta["nn_module_stack"]
        for node in graph.nodes
        if "nn_module_stack" in node.meta and node.op == "call_function"
    )
    return next(stacks, None)


def get_node_context(node: Node, num_nodes: int = 2) -> str:
    """Return the lines of a node and of the ones before it, `num_nodes` in total."""
    lines: list[str] = []
    while len(lines) < num_nodes:
        lines.insert(0, str(node.format_node()))
        if node.op == "root":
            break
        node = node.prev
    return "\n".join(lines)
