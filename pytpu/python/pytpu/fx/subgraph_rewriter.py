"""`torch.fx.subgraph_rewriter`: replace parts of a graph that have a form."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytpu as torch

from ._compatibility import compatibility
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .passes.utils.matcher_utils import InternalMatch

    _MatchFilter = Callable[[InternalMatch, Graph, Graph], bool]

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


@compatibility(is_backward_compatible=True)
class Match(NamedTuple):
    """A part of a graph that had the form: the node of the pattern that was searched for, and all nodes of both."""

    anchor: Node
    nodes_map: dict[Node, Node]


@compatibility(is_backward_compatible=False)
@dataclass
class ReplacedPatterns:
    """The same, with the nodes that are there instead."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


@compatibility(is_backward_compatible=True)
def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Replace all parts of a graph that compute what a pattern computes. Where parts overlap, the first is replaced.

    Args:
        gm: The module whose graph is changed.
        pattern: A function or graph module. Its parameters stand for any value, and each must be used.
        replacement: A function or graph module with as many parameters, and as many results.

    Example:
        >>> import pytpu as torch
        >>> module = torch.fx.symbolic_trace(lambda x, y: torch.relu(x + y))
        >>> matches = torch.fx.replace_pattern(module, lambda a, b: torch.relu(a + b), lambda a, b: a * b)
        >>> module(torch.tensor(2.0), torch.tensor(3.0))
        tensor(6.)
    """
    return [Match(made.anchor, made.nodes_map) for made in _replace_pattern(gm, pattern, replacement)]


@compatibility(is_backward_compatible=False)
def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[_MatchFilter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """The same, with more to say about it.

    Args:
        gm: The module whose graph is changed.
        pattern: A function, graph or graph module.
        replacement: A function, graph or graph module.
        match_filters: Functions of a match, the graph, and the graph of the pattern. The match counts if all of them
            return `True`.
        ignore_literals: Let numbers and texts of the pattern stand for any others.
        replacement_callback: A function of the same arguments, which returns the graph to insert.
        node_name_match: A text. A node with the text in its name matches any node of the pattern.
    """
    return _replace_pattern(
        gm, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match
    )


def _graph_of(program: Any) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _place_before(graph: Graph, returning: list[Node]) -> Node:
    """Return the node before which a replacement goes: the first user of its results, or the one after them."""
    users = {user for node in returning for user in node.users}
    if users:
        return min(users)
    last = max(returning)
    if last.next is graph._root:
        raise AssertionError("The insert point can't be None")
    return last.next


def _replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[_MatchFilter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    from .passes.utils.matcher_utils import SubgraphMatcher

    graph, form = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(
        form,
        match_output=False,
        match_placeholder=False,
        remove_overlapping_matches=True,
        ignore_literals=ignore_literals,
    )
    matches = [
        match
        for match in matcher.match(graph, node_name_match=node_name_match)
        if all(accepts(match, graph, form) for accepts in match_filters or ())
    ]
    if replacement is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    common = None if replacement is None else _graph_of(replacement)
    parameters = [node for node in form.nodes if node.op == "placeholder"]
    # Nodes that were replaced, which may be arguments of a later match.
    changed: dict[Node, Node] = {}
    made = []
    for match in matches:
        inserted: Any = common if replacement_callback is None else replacement_callback(match, graph, form)
        new_parameters = [node for node in inserted.nodes if node.op == "placeholder"]
        if len(match.placeholder_nodes) != len(new_parameters):
            raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(new_parameters)}")
        values: dict[Node, Any] = {}
        for i, (old, new) in enumerate(zip(parameters, new_parameters)):
            value = map_arg(match.placeholder_nodes[i], lambda node: changed.get(node, node))
            values[new] = match.placeholder_nodes[i] = match.nodes_map[old] = value
        with graph.inserting_before(_place_before(graph, match.returning_nodes)):
            results = graph.graph_copy(inserted, values)
        if isinstance(results, Node):
            results = (results,)
        if len(match.returning_nodes) != len(results):
            raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}")
        new_nodes = [
            value for value in values.values() if isinstance(value, Node) and value not in match.placeholder_nodes
        ]
        for old, new in zip(match.returning_nodes, results):
            old.replace_all_uses_with(new)
            changed[old] = new
        for node in reversed(form.nodes):
            if node.op not in ("placeholder", "output"):
                graph.erase_node(match.nodes_map[node])
        made.append(ReplacedPatterns(match.anchors[0], match.nodes_map, new_nodes))
    gm.recompile()
    if isinstance(replacement, torch.nn.Module):
        _replace_attributes(gm, replacement)
    return made


def _replace_attributes(gm: GraphModule, replacement: torch.nn.Module) -> None:
    """Copy the attributes that the new nodes name and `gm` lacks, and delete the modules that no node names."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _find(gm, node.target) is not None:
            continue
        there = _find(replacement, node.target)
        if there is None:
            raise RuntimeError(
                'Attempted to create a "',
                node.op,
                f'" node during subgraph rewriting with target {node.target}, but the referenced attribute does not '
                "exist in the replacement GraphModule",
            )
        copied = copy.deepcopy(there)
        if isinstance(there, torch.nn.Module):
            gm.add_submodule(node.target, copied)
        else:
            setattr(gm, node.target, copied)
    gm.graph.lint()


def _find(module: torch.nn.Module, target: str) -> Any:
    path, _, name = target.rpartition(".")
    try:
        return getattr(module.get_submodule(path), name, None)
    except AttributeError:
        return None
