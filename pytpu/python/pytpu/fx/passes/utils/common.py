"""`torch.fx.passes.utils.common`: modules of parts of a graph, and comparison of graphs."""

from __future__ import annotations

from ....nn import Module
from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import GraphModule
from .matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


@compatibility(is_backward_compatible=False)
class HolderModule(Module):
    """A module with children and no computation.

    Args:
        d: The children by name.
    """

    def __init__(self, d: dict[str, Module | None]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


@compatibility(is_backward_compatible=False)
def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """Return a module of a graph whose nodes name attributes of another module.

    Args:
        gm: The other module.
        subgraph: The graph.
        comp_name: The path of the new module in `gm`.
        class_name: The name of its class.

    Returns:
        The module, and the new path of each attribute.
    """
    root = HolderModule({})
    paths = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        if not isinstance(node.target, str):
            raise AssertionError(f"Expected str target, got {type(node.target)}")
        *prefix, last = node.target.split(".")
        made, source = root, gm
        for name in prefix:
            if not hasattr(made, name):
                made.add_module(name, HolderModule({}))
            made, source = getattr(made, name), getattr(source, name)
        setattr(made, last, getattr(source, last))
        paths[node.target] = f"{comp_name}.{node.target}"
    return GraphModule(root, subgraph, class_name), paths


@compatibility(is_backward_compatible=False)
def compare_graphs(left: Graph, right: Graph) -> bool:
    """Return whether two graphs have the same parameters, results, operations and connections."""
    return bool(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right))
