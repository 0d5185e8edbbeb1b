"""`torch.fx.passes.split_module`: divide a graph by a function of its nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytpu as torch

from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from ..proxy import Proxy

__all__ = ["Partition", "split_module", "split_module_simple"]


@compatibility(is_backward_compatible=True)
class Partition:
    """A part of a graph: names of its nodes, of its arguments and results, and of the parts around it.

    Args:
        name: The name.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph: Graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n"
            f" partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


def _get_attr_from_qualname(mod: Any, qualname: str) -> Any:
    for part in qualname.split("."):
        if not hasattr(mod, part):
            raise AttributeError(f"Node target {qualname} not found!")
        mod = getattr(mod, part)
    return mod


# Calls that change a setting of the process, which holds for the nodes after them, also in other parts.
_ENTER, _EXIT, _GRAD = torch.amp._enter_autocast, torch.amp._exit_autocast, torch._C._set_grad_enabled
_SETTINGS = (_ENTER, _EXIT, _GRAD)


def _is_setting(node: Node) -> bool:
    return node.op == "call_function" and node.target in _SETTINGS


@compatibility(is_backward_compatible=True)
def split_module(
    m: GraphModule,
    root_m: torch.nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Return a module with one child for each part of a graph.

    Args:
        m: The module with the graph.
        root_m: Kept for callers.
        split_callback: A function from nodes to the numbers of their parts.
        qualname_map: A dictionary that gets the old path of each attribute.
        keep_original_order: Call the parts in the order of their first nodes.
        keep_original_node_name: Give the nodes of the parts the names of the nodes of `m`.
        keep_original_input_name: Give the parameters of the parts the names of the nodes that they stand for.
        partition_affix: A text for the names of the parts: `submod_<affix>_0`.
        tuple_return: Let the children return a tuple of one result too.

    Raises:
        RuntimeError: Parts depend on each other.
    """
    split = _Split(m, split_callback, partition_affix)
    split.keep_node_name, split.keep_input_name = bool(keep_original_node_name), keep_original_input_name
    split.assign()
    split.connect()
    order = split.order()
    split.open_settings()
    split.add_inputs(order)
    split.copy_nodes({} if qualname_map is None else qualname_map)
    split.close_settings()
    return split.assemble(list(split.parts) if keep_original_order else order, bool(keep_original_order), tuple_return)


class _Split:
    """The parts of a graph while they are made."""

    keep_node_name, keep_input_name = False, True

    def __init__(self, m: GraphModule, callback: Callable[[Node], int], affix: str | None) -> None:
        self.m, self.callback, self.affix = m, callback, affix
        self.nodes = {node.name: node for node in m.graph.nodes}
        self.parts: dict[str, Partition] = {}
        self.part_of: dict[Node, str] = {}
        # The numbers of the parts in which a setting holds, by the node that makes it.
        self.autocast: dict[Node, list[int]] = {}
        self.grad: dict[Node, list[int]] = {}
        self.exits: dict[Node, Node] = {}

    def name_of(self, number: int) -> str:
        return str(number) if self.affix is None else f"{self.affix}_{number}"

    def assign(self) -> None:
        """Find the part of each node, and where settings hold."""
        grad: Node | None = None
        autocasts: dict[Node, None] = {}
        regions: dict[Node, set[int]] = {}
        numbers: list[int] = []
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            number = self.callback(node)
            numbers.append(number)
            name = self.name_of(number)
            self.parts.setdefault(name, Partition(name)).node_names.append(node.name)
            self.part_of[node] = node._fx_partition = name
            if _is_setting(node):
                if node.target is _GRAD:
                    grad = node
                elif node.target is _ENTER:
                    autocasts[node] = None
                else:
                    regions[node.args[0]].add(number)
                    del autocasts[node.args[0]]
                    self.exits[node.args[0]] = node
            for active in (*autocasts, *([] if grad is None else [grad])):
                regions.setdefault(active, set()).add(number)
        for node, found in regions.items():
            (self.grad if node.target is _GRAD else self.autocast)[node] = sorted(found)
        if any(node not in self.exits for node in self.autocast):
            raise AssertionError("autocast must exit")
        if regions and numbers != sorted(numbers):
            raise AssertionError("autocast or set_grad_enabled require monotonically increasing partitions")

    def connect(self) -> None:
        """Find the values that go from one part to another one, and out of the graph."""
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr") or _is_setting(node):
                continue
            user = self.part_of.get(node)
            for used in node.all_input_nodes:
                maker = self.part_of.get(used)
                if maker == user:
                    continue
                if maker is not None:
                    self.parts[maker].outputs[used.name] = None
                    if user is not None:
                        self.parts[maker].dependents[user] = None
                        self.parts[user].dependencies[maker] = None
                if user is not None:
                    self.parts[user].inputs[used.name] = None

    def order(self) -> list[str]:
        """Return the parts, each after the ones that it depends on."""
        ready = [name for name, part in self.parts.items() if not part.dependencies]
        made = []
        while ready:
            name = ready.pop()
            made.append(name)
            for user in self.parts[name].dependents:
                del self.parts[user].dependencies[name]
                if not self.parts[user].dependencies:
                    ready.append(user)
        if len(made) != len(self.parts):
            raise RuntimeError("cycle exists between partitions!")
        return made

    def open_settings(self) -> None:
        """Make each setting again at the start of the later parts in which it holds."""
        for regions in (self.autocast, self.grad):
            for node, numbers in regions.items():
                self.parts[self.name_of(numbers[0])].environment[node] = node
                for number in numbers[1:]:
                    part = self.parts[self.name_of(number)]
                    copied = part.graph.create_node(node.op, node.target, node.args, type_expr=node.type)
                    copied.meta = node.meta.copy()
                    part.environment[node] = copied

    def close_settings(self) -> None:
        """End each autocast at the end of the parts in which it does not end anyway."""
        for node, numbers in reversed(self.autocast.items()):
            exit_node = self.exits[node]
            for number in numbers[:-1]:
                part = self.parts[self.name_of(number)]
                copied = part.graph.create_node(
                    exit_node.op, exit_node.target, (part.environment[node],), type_expr=exit_node.type
                )
                copied.meta = exit_node.meta.copy()

    def is_module(self, node: Node) -> bool:
        return node.op == "get_attr" and isinstance(_get_attr_from_qualname(self.m, str(node.target)), torch.nn.Module)

    def add_inputs(self, order: list[str]) -> None:
        """Insert the parameters of the parts, and reads of modules after them."""
        for name in order:
            part = self.parts[name]
            values = [self.nodes[key] for key in part.inputs]
            kept = [node for node in values if not self.is_module(node)]
            for i, node in enumerate(kept):
                made = part.graph.placeholder(node.name if self.keep_input_name else f"arg_{i}", type_expr=node.type)
                made.meta = node.meta.copy()
                part.environment[node] = made
            for node in values:
                if self.is_module(node):
                    target = str(node.target)
                    part.environment[node] = part.graph.get_attr(target)
                    part.environment[node].meta = node.meta.copy()
                    part.targets[target] = _get_attr_from_qualname(self.m, target)
            part.inputs = {node.name: None for node in kept}

    def copy_nodes(self, paths: dict[str, str]) -> None:
        """Copy the nodes into their parts. `paths` gets the old path of each attribute."""
        for node, name in self.part_of.items():
            part = self.parts[name]
            args, kwargs = map_arg((node.args, node.kwargs), part.environment.__getitem__)
            target = node.target
            if node.op == "call_module":
                target = str(node.target).replace(".", "_")
                part.targets[target] = _get_attr_from_qualname(self.m, str(node.target))
                paths[f"{part.submod_name}.{target}"] = str(node.target)
            copied = part.graph.create_node(
                node.op, target, args, kwargs, node.name if self.keep_node_name else None, node.type
            )
            copied.meta = node.meta.copy()
            part.environment[node] = copied

    def assemble(self, order: list[str], keeps_order: bool, tuple_return: bool) -> GraphModule:
        """Return the module that calls the parts."""
        base, values = Graph(), {}
        members: dict[str, Any] = {}

        def copy_node(node: Node) -> None:
            if node.op == "placeholder":
                default = node.args[0] if node.args else inspect.Signature.empty
                target = node.name if self.keep_node_name else str(node.target)
                made = base.placeholder(target, type_expr=node.type, default_value=default)
            else:
                made = base.get_attr(str(node.target))
                members[str(node.target)] = _get_attr_from_qualname(self.m, str(node.target))
            made.meta = node.meta.copy()
            values[node.name] = made

        first = [node for node in self.m.graph.nodes if node.op == "placeholder"]
        if not keeps_order or not self.parts:
            first = [node for node in self.m.graph.nodes if node.op in ("placeholder", "get_attr")]
        for node in first:
            copy_node(node)
        for name in order:
            part = self.parts[name]
            results = tuple(part.environment[self.nodes[key]] for key in part.outputs)
            is_single = len(results) == 1 and not tuple_return
            part.graph.output(results[0] if is_single else results)
            for key in part.inputs:
                if key not in values:
                    copy_node(self.nodes[key])
            members[part.submod_name] = GraphModule(part.targets, part.graph)
            call = base.call_module(part.submod_name, tuple(values[key] for key in part.inputs))
            for i, key in enumerate(part.outputs):
                values[key] = call if is_single else Proxy(call)[i].node  # type: ignore[index]
        output = self.m.graph.output_node()
        for node in output.all_input_nodes:
            if node.name not in values:
                copy_node(node)
        base.output(map_arg(output.args[0], lambda node: values[node.name]))
        made = GraphModule(members, base)
        made.meta["partition_names"] = {part.submod_name for part in self.parts.values()}
        return made


@compatibility(is_backward_compatible=False)
def split_module_simple(
    m: GraphModule, node_to_partition: dict[Node, int], *, partition_affix: str | None = None
) -> GraphModule:
    """Return a module with one child for each part of a graph, in the order of the parts' first nodes.

    Args:
        m: The module with the graph.
        node_to_partition: The number of the part of each call.
        partition_affix: A text for the names of the parts: `submod_<affix>_0`.
    """
    return split_module(m, m, node_to_partition.__getitem__, keep_original_order=True, partition_affix=partition_affix)
