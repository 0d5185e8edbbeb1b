"""`torch.fx.passes.graph_drawer`: pictures of graphs, with the package `pydot`."""

from __future__ import annotations

import hashlib
from typing import Any

import pytpu as torch

from .._compatibility import compatibility
from ..graph import _parse_stack_trace
from ..graph_module import GraphModule
from ..node import Node, _format_arg, _get_qualified_name
from ..operator_schemas import normalize_function
from .shape_prop import TensorMetadata

pydot: Any
try:
    import pydot  # type: ignore[no-redef]

    HAS_PYDOT = True
except ModuleNotFoundError:
    HAS_PYDOT = False
    pydot = None

__all__ = ["FxGraphDrawer"]

_COLOR_MAP = {
    "placeholder": '"AliceBlue"',
    "call_module": "LemonChiffon1",
    "get_param": "Yellow2",
    "get_attr": "LightGrey",
    "output": "PowderBlue",
}
# Colors of functions and methods, which follow from their names.
_HASH_COLOR_MAP = (
    "CadetBlue1 Coral DarkOliveGreen1 DarkSeaGreen1 GhostWhite Khaki1 LavenderBlush1 LightSkyBlue MistyRose1 "
    "MistyRose2 PaleTurquoise2 PeachPuff1 Salmon Thistle1 Thistle3 Wheat1"
).split()
_WEIGHT_TEMPLATE = {"fillcolor": "Salmon", "style": '"filled,rounded"', "fontcolor": "#000000"}


def _escape(text: str) -> str:
    return text.replace("{", r"\{").replace("}", r"\}")


@compatibility(is_backward_compatible=False)
class FxGraphDrawer:
    """A picture of the graph of a module, and one of each graph module that it calls.

    Args:
        graph_module: The module.
        name: The name of the picture.
        ignore_getattr: Leave reads of attributes out.
        ignore_parameters_and_buffers: Leave parameters and buffers of modules out.
        skip_node_names_in_args: Leave arguments that are nodes out of the boxes.
        parse_stack_trace: Show the line of the program that a node is from.
        dot_graph_shape: The shape of the boxes.
        normalize_args: Show arguments by the parameters of the function.

    Raises:
        RuntimeError: `pydot` is not installed.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        if not HAS_PYDOT:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot through your favorite "
                "Python package manager."
            )
        self._name = name
        self.dot_graph_shape = "record" if dot_graph_shape is None else dot_graph_shape
        self.normalize_args = normalize_args
        options = ignore_getattr, ignore_parameters_and_buffers, skip_node_names_in_args, parse_stack_trace
        self._dot_graphs = {name: self._to_dot(graph_module, name, *options)}
        for node in graph_module.graph.find_nodes(op="call_module"):
            child = self._get_leaf_node(graph_module, node)
            if isinstance(child, GraphModule):
                full = f"{name}_{node.target}"
                self._dot_graphs[full] = self._to_dot(child, full, *options)

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """Return the picture, or that of a graph module at a path."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> Any:
        """Return the picture."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """Return the picture of a graph module at a path."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """Return all pictures by name."""
        return self._dot_graphs

    def _get_node_style(self, node: Node) -> dict[str, str]:
        color = _COLOR_MAP.get(node.op)
        if color is None:
            name = node._pretty_print_target(node.target).encode()
            digest = hashlib.md5(name, usedforsecurity=False).hexdigest()
            color = _HASH_COLOR_MAP[int(digest[:8], 16) % len(_HASH_COLOR_MAP)]
        return {**_WEIGHT_TEMPLATE, "shape": self.dot_graph_shape, "fillcolor": color}

    def _get_leaf_node(self, module: Any, node: Node) -> Any:
        for atom in str(node.target).split("."):
            if not hasattr(module, atom):
                raise RuntimeError(str(module) + " does not have attribute " + atom + "!")
            module = getattr(module, atom)
        return module

    def _typename(self, target: Any) -> str:
        if isinstance(target, torch.nn.Module):
            return _escape(torch.typename(target))
        return _escape(target if isinstance(target, str) else _get_qualified_name(target))

    def _shorten_file_name(self, full_file_name: str, truncate_to_last_n: int = 2) -> str:
        return "/".join(full_file_name.split("/")[-truncate_to_last_n:])

    @staticmethod
    def _arguments(value: Any, skip_node_names: bool) -> str:
        if isinstance(value, tuple):
            left, right = r"|args=(\l", r",\n)\l"
            items = [_format_arg(item, max_list_len=8) for item in value]
        else:
            left, right = r"|kwargs={\l", r",\n}\l"
            items = [f"{key}: {_format_arg(item, max_list_len=8)}" for key, item in value.items()]
        items = [item for item in items if not (skip_node_names and "%" in item)]
        if not items:
            return ""
        text = left + r",\n".join(items) + right
        return _escape(text.replace(r"\l", "").replace(r"\n", "") if len(items) == 1 else text)

    def _get_node_label(
        self, module: GraphModule, node: Node, skip_node_names_in_args: bool, parse_stack_trace: bool
    ) -> str:
        label = "{" + f"name=%{node.name}|op_code={node.op}\n"
        if node.op == "call_module":
            child = self._get_leaf_node(module, node)
            constants = [f"{name}: {getattr(child, name)}" for name in getattr(child, "__constants__", ())]
            label += r"\n" + self._typename(child) + r"\n|" + r"\n".join(constants) + r"\n"
        else:
            label += f"|target={self._typename(node.target)}" + r"\n"
            args, kwargs = node.args, node.kwargs
            if self.normalize_args:
                # Arguments are shown as they are if the overload is not known.
                try:
                    made = normalize_function(node.target, args, kwargs, normalize_to_only_use_kwargs=True)  # type: ignore[arg-type]
                    args, kwargs = made or (args, kwargs)
                except Exception:
                    pass
            for value in (args, kwargs):
                label += self._arguments(value, skip_node_names_in_args) if value else ""
            label += f"|num_users={len(node.users)}" + r"\n"
        label += self._tensor_meta_to_label(node.meta.get("tensor_meta"))
        buffer = node.meta.get("buf_meta")
        if buffer is not None:
            label += f"|buf={buffer.name}" + r"\n" + f"|n_origin={buffer.n_origin}" + r"\n"
        frame = _parse_stack_trace(node.stack_trace) if parse_stack_trace else None
        if frame is not None:
            label += f"|file={self._shorten_file_name(frame.file)}:{frame.lineno} {frame.code}" + r"\n"
        return label + "}"

    def _tensor_meta_to_label(self, tm: Any) -> str:
        if tm is None:
            return ""
        if isinstance(tm, TensorMetadata):
            return self._stringify_tensor_meta(tm)
        if isinstance(tm, dict):
            tm = list(tm.values())
        if not isinstance(tm, (list, tuple)):
            raise RuntimeError(f"Unsupported tensor meta type {type(tm)}")
        return "".join(self._tensor_meta_to_label(item) for item in tm)

    def _stringify_tensor_meta(self, tm: TensorMetadata) -> str:
        shown = {"dtype": tm.dtype, "shape": tuple(tm.shape), "requires_grad": tm.requires_grad, "stride": tm.stride}
        return "".join(f"|{name}={value}" + r"\n" for name, value in shown.items())

    def _get_tensor_label(self, t: torch.Tensor) -> str:
        return str(t.dtype) + str(list(t.shape)) + r"\n"

    def _to_dot(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool,
        ignore_parameters_and_buffers: bool,
        skip_node_names_in_args: bool,
        parse_stack_trace: bool,
    ) -> Any:
        graph = pydot.Dot(name, rankdir="TB")
        groups: dict[str, Any] = {}
        for node in graph_module.graph.nodes:
            if ignore_getattr and node.op == "get_attr":
                continue
            label = self._get_node_label(graph_module, node, skip_node_names_in_args, parse_stack_trace)
            box = pydot.Node(node.name, label=label, **self._get_node_style(node))
            owner = graph
            partition = getattr(node, "_fx_partition", None)
            if partition is not None:
                owner = groups.setdefault(partition, pydot.Cluster(str(partition), label=str(partition)))
            owner.add_node(box)
            if node.op == "call_module" and not ignore_parameters_and_buffers:
                child = self._get_leaf_node(graph_module, node)
                if not isinstance(child, GraphModule):
                    self._add_members(owner, child, node)
        for group in groups.values():
            graph.add_subgraph(group)
        for node in graph_module.graph.nodes:
            if not (ignore_getattr and node.op == "get_attr"):
                for user in node.users:
                    graph.add_edge(pydot.Edge(node.name, user.name))
        return graph

    def _add_members(self, owner: Any, module: Any, node: Node) -> None:
        for kind, members in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
            for name, tensor in members:
                full = f"{node.name}.{name}"
                head = f"{full}|op_code=get_{kind}" + r"\l"
                label = "{" + head + self._get_tensor_label(tensor) + "}"
                owner.add_node(pydot.Node(full, label=label, shape=self.dot_graph_shape, **_WEIGHT_TEMPLATE))
                owner.add_edge(pydot.Edge(full, node.name))
