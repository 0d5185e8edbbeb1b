"""`torch.fx.experimental.const_fold`: compute once what does not depend on the arguments."""

from __future__ import annotations

import operator
import re
import types
from collections.abc import Callable
from typing import Any

import pytpu as torch

from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from ..passes.split_module import split_module

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A graph module with a second graph, which runs before the first call and whose results become an attribute.

    Args:
        root: The module with the attributes.
        graph: The graph.
        const_subgraph: The second graph.
        fx_const_folded_attrs_name: The name of the attribute.
        device_for_folded_attrs: The device of results that are numbers.
    """

    def __init__(
        self,
        root: torch.nn.Module,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the second graph if it has not run, and then the first."""
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Run the second graph."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        values = self.const_subgraph_module()
        is_tuple = isinstance(values, tuple)
        made = torch.nn.ParameterList(map(self._parameter, values)) if is_tuple else self._parameter(values)
        setattr(self, self.fx_const_folded_attrs_name, made)

    def _parameter(self, value: Any) -> torch.nn.Parameter:
        if isinstance(value, int):
            number = torch.tensor([float(value)], device=self.device_for_folded_attrs)
            return torch.nn.Parameter(number, requires_grad=False)
        return torch.nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)


def _inline_module(
    gm: GraphModule,
    inline_mod_name: str,
    run_dce: bool = True,
    is_impure_node: Callable[[Node], bool] | None = None,
) -> dict[Node, Node]:
    """Replace the call of a graph module by its nodes. Return the new nodes by those of the inner graph."""
    inner = gm.get_submodule(inline_mod_name)
    if not isinstance(inner, GraphModule):
        raise AssertionError(f"Expected GraphModule, got {type(inner)}")
    calls = gm.graph.find_nodes(op="call_module", target=inline_mod_name)
    if not calls:
        raise AssertionError(f"Could not find call_module node for {inline_mod_name}")
    call = calls[0]
    given = iter(call.args)
    values: dict[Node, Any] = {}

    def value(node: Node) -> Any:
        made = values[node]
        made.meta = node.meta.copy()
        return made

    for node in inner.graph.nodes:
        if node.op == "placeholder":
            values[node] = call.kwargs[node.name] if node.name in call.kwargs else next(given)
        elif node.op != "output":
            with gm.graph.inserting_before(call):
                values[node] = gm.graph.node_copy(node, value)
        else:
            results = map_arg(node.args[0], value)
            if isinstance(results, (list, tuple)):
                for user in list(call.users):
                    if user.target is operator.getitem and isinstance(user.args[1], int):
                        values[user] = results[user.args[1]]
                        user.replace_all_uses_with(values[user])
                        gm.graph.erase_node(user)
            if call.users:
                call.replace_all_uses_with(results)
    gm.graph.erase_node(call)
    if run_dce:
        gm.graph.eliminate_dead_code(is_impure_node)
    return values


def get_unique_attr_name_in_module(mod_traced: GraphModule, name: str) -> str:
    """Return a name that no attribute of a module has, as near to `name` as possible."""
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        parts = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if parts is None else f"{parts[1]}_{int(parts[2]) + 1}"
    return name


def _any_inner(node: Node, condition: Callable[[Node], bool]) -> bool:
    """Return whether a condition holds for a node within the graph module that a node calls."""
    if node.op != "call_module" or node.graph.owning_module is None:
        return False
    module = node.graph.owning_module.get_submodule(str(node.target))
    if not isinstance(module, GraphModule):
        return False
    return any(
        condition(inner) or _any_inner(inner, condition)
        for inner in module.graph.nodes
        if inner.op not in ("placeholder", "output")
    )


def _is_tensor_attribute(module: Any, target: str) -> bool:
    for part in target.split("."):
        module = getattr(module, part, None)
    return module is not None and not isinstance(module, (torch.nn.Module, types.ModuleType))


def _constants(module: GraphModule, skips: Callable[[Node], bool] | None) -> set[Node]:
    """Return the nodes that depend on attributes only."""
    found: set[Node] = set()
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op == "get_attr":
            is_constant = _is_tensor_attribute(module, node.target)
        else:
            is_constant = found.issuperset(node.all_input_nodes)
        if not is_constant or (skips is not None and (skips(node) or _any_inner(node, skips))):
            continue
        if not node.is_impure() and not _any_inner(node, lambda n: n.op == "call_function" and n.is_impure()):
            found.add(node)
    return found


def split_const_subgraphs(
    module: torch.nn.Module | GraphModule,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
    is_impure_node: Callable[[Node], bool] | None = None,
) -> FoldedGraphModule:
    """Return a module that computes at its first call what does not depend on the arguments.

    Args:
        module: The module.
        skip_folding_node_fn: A function that says which nodes are not computed then.
        device_for_folded_attrs: The device of results that are numbers.
        is_impure_node: A function that says which nodes stay though nothing uses them.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constants = _constants(traced, skip_folding_node_fn)
    if all(node.op == "get_attr" for node in constants):
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda node: 0 if node in constants else 1)
    first: Any = split.submod_0
    second: Any = getattr(split, "submod_1", None)
    for part in (second, first):
        if part is not None:
            for node in part.graph.find_nodes(op="call_module"):
                setattr(split, node.target, getattr(part, node.target))
    call = split.graph.find_nodes(op="call_module", target="submod_0")[0]
    # The arguments of the first part are attributes, which it can read itself.
    constant = GraphModule(split, first.graph)
    for node, source in zip(constant.graph.find_nodes(op="placeholder"), call.args):
        if source.op != "get_attr":
            raise AssertionError(f"Expected get_attr, got {source.op}")
        with constant.graph.inserting_before(node):
            read = constant.graph.get_attr(source.target)
        read.meta = node.meta.copy()
        node.replace_all_uses_with(read)
        constant.graph.erase_node(node)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    is_tuple = isinstance(constant.graph.output_node().args[0], tuple)
    setattr(split, name, torch.nn.ParameterList() if is_tuple else torch.nn.Parameter(torch.empty(0)))
    with split.graph.inserting_before(call):
        folded = split.graph.get_attr(name)
    folded.meta = call.meta.copy()
    call.replace_all_uses_with(folded)
    if second is not None:
        _inline_module(split, "submod_1", is_impure_node=is_impure_node)
    split.graph.eliminate_dead_code(is_impure_node)
    return FoldedGraphModule(split, split.graph, constant.graph, name, device_for_folded_attrs)
