"""`torch.fx.passes.utils.matcher_with_name_node_map_utils`: matches whose nodes have names."""

from __future__ import annotations

from typing import Any

from ....utils._pytree import tree_flatten, tree_unflatten
from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from .matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm: Any) -> tuple[GraphModule, dict[str, Node]]:
    """Remove the dictionary, which is the last result, from the results of a pattern. Return it."""
    node = gm.graph.output_node()
    if gm._out_spec is None:
        raise AssertionError("gm._out_spec is None")
    output = tree_unflatten(node.args[0], gm._out_spec)
    if not isinstance(output, tuple):
        raise AssertionError("Expecting the pattern graph to return a tuple")
    if len(output) < 2:
        raise AssertionError("Expecting the pattern graph to have at least two outputs")
    *results, names = output
    if not isinstance(names, dict):
        raise AssertionError("Expecting the input graph to have a dict output as the last element")
    leaves, spec = tree_flatten(results)
    node.args = (leaves,)
    codegen = gm.graph._codegen
    codegen.pytree_info = codegen.pytree_info._replace(out_spec=spec)
    gm.recompile()
    return gm, names


@compatibility(is_backward_compatible=False)
class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """A search whose pattern gives its nodes names: its last result is a dictionary of them.

    Args:
        pattern_gm: The form, a module of a graph whose arguments and results are trees. It is changed.
        match_output: See `SubgraphMatcher`.
        match_placeholder: See `SubgraphMatcher`.
        remove_overlapping_matches: See `SubgraphMatcher`.
        ignore_literals: See `SubgraphMatcher`.
    """

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the matches. `name_node_map` of each has the nodes of the graph by name."""
        matches = super().match(graph, node_name_match)
        for match in matches:
            match.name_node_map.update({name: match.nodes_map[node] for name, node in self.name_node_map.items()})
        return matches
