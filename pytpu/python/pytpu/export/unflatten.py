"""``torch.export.unflatten``: the modules of an exported program, each with the part of the graph that it computes."""

from __future__ import annotations

import abc
import operator
from collections.abc import Sequence
from typing import Any

import pytpu as torch

from .. import fx
from ..utils import _pytree as pytree
from ._unlift import check_inputs, leaves_of, reorder_kwargs
from .exported_program import ExportedProgram
from .graph_signature import InputKind, OutputKind

__all__ = ["FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter(abc.ABC):
    """Changes leaves of arguments whose tree is not that of the program."""

    @abc.abstractmethod
    def adapt(
        self,
        target_spec: pytree.TreeSpec,
        input_spec: pytree.TreeSpec,
        input_args: list[Any],
        metadata: dict[str, Any] | None = None,
        obj: Any | None = None,
    ) -> list[Any]:
        """Return the leaves for the tree of the program.

        Args:
            target_spec: the tree of the program.
            input_spec: the tree of the arguments.
            input_args: the leaves of the arguments.
            metadata: notes of the graph module.
            obj: the arguments.
        """

    def get_flat_arg_paths(self) -> list[str]:
        """Return the paths of the leaves that are used."""
        return []


class InterpreterModule(torch.nn.Module):
    """A module that runs a graph.

    Args:
        graph: the graph. Its attributes are those of the module.
        ty: the name of the class that the module had.
    """

    graph: fx.Graph

    def __init__(self, graph: fx.Graph, ty: str | None = None) -> None:
        super().__init__()
        self.graph = graph
        self._ty = ty
        self.arg_names: list[str] = []

    def type_name(self) -> str | None:
        """Return the name of the class that the module had."""
        return self._ty

    def finalize(self) -> None:
        """Write the code of the graph. Modules and weights must be there."""
        self.graph.owning_module = self
        self.graph.lint()
        self.arg_names = [str(node.target) for node in self.graph.nodes if node.op == "placeholder"]
        self.__dict__["graph_module"] = fx.GraphModule(self, self.graph)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph."""
        rest = [kwargs[name] for name in self.arg_names[len(args) :] if name in kwargs]
        return fx.Interpreter(self, graph=self.graph).run(*args, *rest, enable_io_processing=False)

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> str:
        """Print the code of the graph, and return it."""
        module: fx.GraphModule = self.__dict__["graph_module"]
        return module.print_readable(print_output, include_stride, include_device, colored)


class InterpreterModuleDispatcher(torch.nn.Module):
    """A module that was called several times with different graphs: each call runs the next one.

    Args:
        attrs: Accepted for compatibility.
        call_modules: the modules of the calls.
    """

    def __init__(self, attrs: set[str], call_modules: list[InterpreterModule]) -> None:
        super().__init__()
        if not call_modules:
            raise AssertionError("call_modules must not be empty")
        self._modules = call_modules[0]._modules
        self._parameters = call_modules[0]._parameters
        self._buffers = call_modules[0]._buffers
        self.__dict__["_call_modules"] = call_modules
        self._num_calls = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph of the next call."""
        call = self.__dict__["_call_modules"][self._num_calls]
        self._num_calls = (self._num_calls + 1) % len(self.__dict__["_call_modules"])
        return call(*args, **kwargs)

    def call_modules(self) -> list[InterpreterModule]:
        """Return the modules of the calls."""
        return self.__dict__["_call_modules"]


_Stack = tuple[tuple[str, str, str], ...]


def _stack_of(node: fx.Node) -> _Stack:
    """Return the modules around a node, each with a key of the call, its path and its class. The root is left out."""
    found = node.meta.get("nn_module_stack") or {}
    return tuple(
        (key, path, kind if isinstance(kind, str) else kind.__name__) for key, (path, kind) in found.items() if path
    )


class _Builder:
    """Divides the nodes of one module into those of its own and the calls of its modules."""

    def __init__(self, program: ExportedProgram, root: torch.nn.Module) -> None:
        self.program, self.root = program, root
        signature = program.graph_signature
        nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
        self.targets = {
            node: str(spec.target)
            for node, spec in zip(nodes, signature.input_specs)
            if spec.kind != InputKind.USER_INPUT
        }
        self.stacks: dict[fx.Node, _Stack] = {}
        for node in program.graph.nodes:
            stack = _stack_of(node)
            if not stack and node.op == "call_function":
                # A node of the exporter: it belongs to the module of what it reads.
                stack = max((self.stacks[n] for n in node.all_input_nodes), key=len, default=())
            if node.op == "get_attr":
                user = next(iter(node.users), None)
                stack = () if user is None else _stack_of(user)
            self.stacks[node] = () if node.op in ("placeholder", "output") else stack
        self.calls: dict[str, int] = {}

    def build(self, nodes: Sequence[fx.Node], depth: int, path: str, graph: fx.Graph, env: dict[fx.Node, Any]) -> None:
        """Add nodes to the graph of the module at a path. ``env`` has the nodes of its inputs."""
        i = 0
        while i < len(nodes):
            stack = self.stacks[nodes[i]]
            if len(stack) <= depth:
                self._own(nodes[i], path, graph, env)
                i += 1
                continue
            key = stack[depth][0]
            end = i
            while (
                end < len(nodes) and len(self.stacks[nodes[end]]) > depth and self.stacks[nodes[end]][depth][0] == key
            ):
                end += 1
            self._call(nodes[i:end], depth, path, graph, env)
            i = end

    def _own(self, node: fx.Node, path: str, graph: fx.Graph, env: dict[fx.Node, Any]) -> None:
        if node.op == "get_attr":
            name = str(node.target)
            self.root.get_submodule(path).add_module(name, self.program.graph_module.get_submodule(name))
        for used in node.all_input_nodes:
            if used not in env:
                env[used] = self._weight(used, path, graph)
        env[node] = graph.node_copy(node, lambda n: env[n])

    def _weight(self, node: fx.Node, path: str, graph: fx.Graph) -> fx.Node:
        """Return the node of a weight of the module itself."""
        target = self.targets[node]
        own = target.removeprefix(f"{path}.") if path else target
        with graph.inserting_before(next(iter(n for n in graph.nodes if n.op != "placeholder"), None) or graph._root):
            made = graph.get_attr(own)
        made.meta = dict(node.meta)
        return made

    def _is_within(self, node: fx.Node, path: str) -> bool:
        return node in self.targets and self.targets[node].startswith(f"{path}.")

    def _call(self, nodes: Sequence[fx.Node], depth: int, path: str, graph: fx.Graph, env: dict[fx.Node, Any]) -> None:
        _, inner_path, kind = self.stacks[nodes[0]][depth]
        inner_path = inner_path.partition("@")[0]
        inside = set(nodes)
        inputs = [
            n
            for n in dict.fromkeys(used for node in nodes for used in node.all_input_nodes)
            if n not in inside and not self._is_within(n, inner_path)
        ]
        outputs = [node for node in nodes if any(user not in inside for user in node.users)]
        inner = fx.Graph()
        inner_env: dict[fx.Node, Any] = {}
        for used in inputs:
            inner_env[used] = made = inner.placeholder(used.name)
            made.meta = dict(used.meta)
        number = self.calls.get(inner_path, 0)
        self.calls[inner_path] = number + 1
        name = inner_path if number == 0 else f"{inner_path}@{number}"
        module = InterpreterModule(inner, kind)
        _replace_module(self.root, name, module, inner_path if number else None)
        self.build(nodes, depth + 1, inner_path if number == 0 else name, inner, inner_env)
        results = tuple(inner_env[node] for node in outputs)
        inner.output(results[0] if len(results) == 1 else results)
        for used in inputs:
            if used not in env:
                env[used] = self._weight(used, path, graph)
        relative = name.removeprefix(f"{path.partition('@')[0]}.") if path else name
        call = graph.create_node("call_module", relative, tuple(env[n] for n in inputs))
        if len(outputs) == 1:
            env[outputs[0]] = call
            call.meta["val"] = outputs[0].meta.get("val")
        else:
            for i, node in enumerate(outputs):
                env[node] = item = graph.call_function(operator.getitem, (call, i))
                item.meta["val"] = node.meta.get("val")


def _replace_module(root: torch.nn.Module, path: str, module: torch.nn.Module, like: str | None) -> None:
    """Put a module in the place of the one that has the weights of its path, and give it these."""
    *parents, last = path.split(".")
    parent = root
    for part in parents:
        if part not in parent._modules:
            parent.add_module(part, torch.nn.Module())
        parent = parent.get_submodule(part)
    old = root.get_submodule(like) if like is not None else parent._modules.get(last)
    if old is not None:
        module._parameters, module._buffers = old._parameters, old._buffers
        module._non_persistent_buffers_set = old._non_persistent_buffers_set
        for name, child in old._modules.items():
            module.add_module(name, child)
    parent.add_module(last, module)


class UnflattenedModule(torch.nn.Module):
    """The modules of a program, with the graph of the root.

    Args:
        export_module: the program.
        flat_args_adapter: changes arguments with another tree.
    """

    def __init__(self, export_module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> None:
        super().__init__()
        from ._unlift import _assign

        signature = export_module.graph_signature
        if signature.backward_signature is not None:
            raise ValueError("Unflattening on JointExportModule NYI")
        self.graph_signature, self.flat_args_adapter = signature, flat_args_adapter
        self.module_call_graph = export_module.module_call_graph
        self.range_constraints = export_module.range_constraints
        self.meta = export_module.graph_module.meta
        specs = {str(s.target): s for s in signature.input_specs if s.kind != InputKind.USER_INPUT}
        copies: dict[int, Any] = {}
        for name, value in zip(specs, export_module._weights()):
            if id(value) not in copies:
                copies[id(value)] = _copy(value)
            _assign(self, name, copies[id(value)], specs[name])
        for name, value in export_module.state_dict.items():
            if name not in specs:
                kind = InputKind.PARAMETER if isinstance(value, torch.nn.Parameter) else InputKind.BUFFER
                spec = type(signature.input_specs[0])(kind, signature.input_specs[0].arg, name, True) if specs else None
                _assign(self, name, copies.get(id(value), value), spec)
        builder = _Builder(export_module, self)
        self.graph = graph = fx.Graph()
        env: dict[fx.Node, Any] = {}
        nodes = list(export_module.graph.nodes)
        self._inputs: list[fx.Node] = []
        for node, spec in zip(nodes, signature.input_specs):
            if spec.kind == InputKind.USER_INPUT:
                env[node] = made = graph.placeholder(node.name)
                made.name, made.meta = node.name, dict(node.meta)
                self._inputs.append(made)
        builder.build([n for n in nodes if n.op in ("call_function", "get_attr")], 0, "", graph, env)
        self._finish(export_module, builder, env, nodes[-1])

    def _finish(self, program: ExportedProgram, builder: _Builder, env: dict[fx.Node, Any], output: fx.Node) -> None:
        graph, signature = self.graph, program.graph_signature
        by_target = {target: node for node, target in builder.targets.items()}
        by_name = {node.name: node for node in self._inputs}
        user = []

        def value(node: fx.Node) -> Any:
            if node not in env:
                env[node] = builder._weight(node, "", graph)
            return env[node]

        results: Any = output.args[0]
        for result, spec in zip(results if isinstance(results, (tuple, list)) else [results], signature.output_specs):
            made = fx.node.map_arg(result, value)
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
                graph.call_function(torch.ops.aten.copy_.default, (value(by_target[str(spec.target)]), made))
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                graph.call_function(torch.ops.aten.copy_.default, (by_name[str(spec.target)], made))
            else:
                user.append(made)
        graph.output(tuple(user))
        graph.owning_module = self
        graph.lint()
        for module in self.modules():
            if isinstance(module, InterpreterModule):
                module.finalize()

    def process_forward_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the leaves of the arguments, after checks of their tree and sizes."""
        entry = self.module_call_graph[0].signature
        assert entry is not None  # the first entry is the program
        spec = entry.in_spec
        try:
            found = leaves_of(args, kwargs, spec)
        except ValueError as error:
            if self.flat_args_adapter is None:
                raise TypeError(
                    "There is no flat args adapter specified. Are you sure you are calling this with the right "
                    f"arguments? {error}"
                ) from None
            leaves, given = pytree.tree_flatten((args, reorder_kwargs(kwargs, spec)))
            adapted = self.flat_args_adapter.adapt(
                target_spec=spec, input_spec=given, input_args=leaves, metadata=self.meta, obj=args
            )
            if len(adapted) != spec.num_leaves:
                raise TypeError(
                    f"Flat args adaption failed, number of args mismatch Adatped: {len(adapted)} \nExported module: "
                    f"{spec.num_leaves}"
                ) from None
            return adapted
        check_inputs(self._inputs, found, self.range_constraints)
        return [leaf for _, leaf in found]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        leaves = self.process_forward_inputs(*args, **kwargs)
        results = fx.Interpreter(self, graph=self.graph).run(*leaves, enable_io_processing=False)
        entry = self.module_call_graph[0].signature
        assert entry is not None
        return pytree.tree_unflatten(results, entry.out_spec)

    def finalize(self) -> None:
        """Do nothing: the graphs are complete."""

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> str:
        """Print the code of the root's graph, and return it."""
        module = fx.GraphModule(self, self.graph)
        return module.print_readable(print_output, include_stride, include_device, colored)


def _copy(value: Any) -> Any:
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)
    return value.clone() if isinstance(value, torch.Tensor) else value


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """Return the modules of a program, so that one of them can be replaced.

    Each module takes the values that its part of the graph reads, by position, and returns those that others read.

    Args:
        module: the program.
        flat_args_adapter: changes arguments with another tree.

    Example:
        >>> import pytpu as torch
        >>> torch.export.unflatten  # doctest: +ELLIPSIS
        <function unflatten at ...>
    """
    return UnflattenedModule(module, flat_args_adapter)
