"""Capture of programs: `torch.export.export` runs a module with descriptions of its inputs, and keeps the operators."""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytpu as torch

from .. import fx
from .._dynamo.exc import UserError, UserErrorType
from .._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    is_fake,
)
from ..fx.experimental._record import Recorder, _public, noting_modules, recording, without_modes
from ..fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from ..utils import _pytree as pytree
from . import _sizes
from ._unlift import reorder_kwargs
from .dynamic_shapes import spec_of_leaves
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, argument_of
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

_BASIC = (int, float, bool, str, type(None))


class Capture:
    """One run of a module with fake values.

    Attributes:
        graph: the graph. Its parameters are weights, constants, and the leaves of the inputs.
        inputs: the nodes of the leaves of the inputs.
        weights: the nodes of weights by name.
        constants: constant tensors, each with its node.
        results: the leaves of the result: nodes or constants.
        out_spec: the tree of the result.
    """

    def __init__(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]
    ) -> None:
        self.graph = fx.Graph()
        self.weights: dict[str, fx.Node] = {}
        self.constants: list[tuple[torch.Tensor, fx.Node]] = []
        self.inputs: list[fx.Node] = []
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        # Constants are inserted before the leaves of the inputs.
        self.recorder = Recorder(self.graph, self._constant, keeps_compositions=True, keep_notes=True)
        self._fakes: dict[int, Any] = {}
        self._weights(module)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        values = [self._input(leaf, name) for leaf, name in zip(leaves, names)]
        call_args, call_kwargs = pytree.tree_unflatten(values, spec)
        with self.mode, self._swapped(module), noting_modules(self.recorder, module), recording(self.recorder):
            result = _traced_program(module, call_args, call_kwargs)
            self._assigned_buffers(module)
        self.out_leaves, self.out_spec = pytree.tree_flatten(result)
        self.results = [self._result(leaf) for leaf in self.out_leaves]

    # ---- inputs

    def _placeholder(self, name: str, value: Any) -> fx.Node:
        node = self.graph.placeholder(name)
        if all(other.name != name for other in self.graph.nodes if other is not node):
            # `Graph` takes another name where a builtin has it, such as `input`.
            node.name = name
        node.meta["val"] = value
        return node

    def _weights(self, module: torch.nn.Module) -> None:
        for prefix, named in (
            ("p", module.named_parameters(remove_duplicate=False)),
            ("b", module.named_buffers(remove_duplicate=False)),
        ):
            for name, value in named:
                fake = self.mode.from_tensor(value)
                node = self._placeholder(f"{prefix}_{name.replace('.', '_')}", fake)
                self.weights[name] = node
                # The last name of a shared weight is the one that is read, as in PyTorch.
                self.recorder.track(fake, node)

    def _input(self, leaf: Any, name: str) -> Any:
        if isinstance(leaf, torch.Tensor):
            # A tensor that is passed twice is two inputs.
            fake = torch._C._fake_of(leaf.detach()).requires_grad_(leaf.requires_grad)
            node = self._placeholder(name, fake)
            self.recorder.track(fake, node)
            self.inputs.append(node)
            return fake
        self.inputs.append(self._placeholder(name, leaf))
        return leaf

    def _constant(self, tensor: torch.Tensor) -> fx.Node:
        if is_fake(tensor):
            raise NotImplementedError(
                "torch.export.export: a tensor of the program is the result of something that is no operator"
            )
        first = self.inputs[0] if self.inputs else next(iter(self.graph.nodes), None)
        with self.graph.inserting_before(first) if first is not None else contextlib.nullcontext():
            node = self._placeholder(f"c_lifted_tensor_{len(self.constants)}", None)
        with without_modes():
            node.meta["val"] = self.mode.from_tensor(tensor.detach())
        self.constants.append((tensor, node))
        return node

    # ---- the module

    @contextlib.contextmanager
    def _swapped(self, module: torch.nn.Module) -> Iterator[None]:
        """Return a block in which the weights of the module are fake."""
        changed: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for part in module.modules():
                for table in (part._parameters, part._buffers):
                    for name, value in table.items():
                        if isinstance(value, torch.Tensor) and not is_fake(value):
                            changed.append((table, name, value))
                            table[name] = self.mode.from_tensor(value)
                            self._fakes[id(table), name] = table[name]
            yield
        finally:
            for table, name, value in changed:
                table[name] = value

    def _assigned_buffers(self, module: torch.nn.Module) -> None:
        """Write buffers that the module assigned anew."""
        for path, part in module.named_modules():
            for name, value in part._buffers.items():
                before = self._fakes.get((id(part._buffers), name))
                if before is None or value is before or not isinstance(value, torch.Tensor):
                    continue
                full = f"{path}.{name}" if path else name
                if self.recorder.nodes.get(id(value)) is self.recorder.nodes.get(id(before)):
                    continue
                copy = torch.ops.aten.copy_.default
                node = self.graph.call_function(copy, (self.weights[full], self.recorder.node_of(value)))
                node.meta["val"] = before
                node.meta["_modes"] = None

    def _result(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return self.recorder.node_of(leaf)
        if isinstance(leaf, _BASIC):
            return leaf
        raise UserError(
            UserErrorType.INVALID_OUTPUT,
            f"It looks like one of the outputs with type `{type(leaf)}` is not supported or pytree-flattenable. \n"
            "Exported graphs outputs can only contain the following types: tensors, ints, floats, bools, strings and "
            "None",
        )


def _traced_program(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # Stack traces end at the name of this function.
    return module(*args, **kwargs)


# ---- names


def _input_names(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Return the names of the leaves of the inputs, and of the parameters."""
    parameters = inspect.signature(module.forward).parameters
    positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = next((p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL), "args")
    heads = [
        positional[i].name if i < len(positional) else f"{variadic}_{i - len(positional)}" for i in range(len(args))
    ]
    names = []
    for path, _ in pytree.tree_leaves_with_path((args, dict(kwargs))):
        head = heads[path[1].idx] if path[0].idx == 0 else str(path[1].key)
        rest = [str(getattr(key, "idx", getattr(key, "key", getattr(key, "name", "")))) for key in path[2:]]
        name = "_".join([head, *rest])
        names.append("".join(c if c.isalnum() or c == "_" else "_" for c in name))
    return names, [*heads, *kwargs]


# ---- export


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    preserve: Sequence[str] = (),
) -> ExportedProgram:
    """Return the program of a module. See `torch.export.export`."""
    if not isinstance(args, tuple):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}",
        )
    kwargs = dict(kwargs or {})
    # A call fails here as the module itself does, before anything is captured.
    inspect.signature(module.forward).bind(*args, **kwargs)
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    for leaf in leaves:
        if not isinstance(leaf, (torch.Tensor, *_BASIC)):
            raise ValueError(
                f"Unsupported input type {type(leaf)}. Export only supports pytree containers of basic types (Tensor, "
                "int, float, ...) as input. To register a custom dataclass, use torch.export.register_dataclass. To "
                "register a custom container type, use torch.utils._pytree.register_pytree_node. To register a "
                "constant input, use torch.utils._pytree.register_constant"
            )
    specs = spec_of_leaves(module, args, kwargs, dynamic_shapes)
    names, parameters = _input_names(module, args, kwargs)
    plan = _sizes.plan(leaves, specs, names, in_spec, parameters)

    def capture(values: Sequence[Any]) -> Capture:
        call_args, call_kwargs = in_spec.unflatten(values)
        try:
            with _examples(module):
                return Capture(module, call_args, reorder_kwargs(call_kwargs, in_spec), names)
        except DataDependentOutputException as error:
            raise GuardOnDataDependentSymNode(
                f"Could not guard on data-dependent expression: the program reads an element of a tensor ({error}), so "
                "that its course depends on the values of its inputs. Use torch.where or torch.cond for a choice, and "
                "keep numbers in tensors"
            ) from error
        except DynamicOutputShapeException as error:
            raise UserError(
                UserErrorType.DYNAMIC_DIM,
                f"The sizes of the result of {error} depend on the elements of a tensor, and programs here have none "
                "of these",
            ) from error

    captured = plan.run(leaves, capture)
    return _program(module, captured, plan, in_spec, parameters, (args, kwargs), preserve)


@contextlib.contextmanager
def _examples(module: torch.nn.Module) -> Iterator[None]:
    """Return a block that leaves the module and the random generator as they were."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


def _program(
    module: torch.nn.Module,
    captured: Capture,
    plan: _sizes.Plan,
    in_spec: pytree.TreeSpec,
    parameters: list[str],
    examples: tuple[tuple[Any, ...], dict[str, Any]],
    preserve: Sequence[str],
) -> ExportedProgram:
    graph = captured.graph
    for node in graph.nodes:
        if getattr(node.target, "namespace", "") == "prims":
            raise NotImplementedError(
                f"torch.export.export: an operator that aten does not have is called at {_sizes._place(node)}: "
                f"{node.target}"
            )
    output = graph.output(tuple(captured.results))
    output.meta["val"] = tuple(r.meta["val"] if isinstance(r, fx.Node) else r for r in captured.results)
    plan.write_sizes(graph, captured.inputs)
    graph.eliminate_dead_code()
    root_stack = {"L__self__": ("", _public(type(module)))}
    for node in graph.nodes:
        if node.op == "call_function" and not node.meta.get("nn_module_stack"):
            node.meta["nn_module_stack"] = dict(root_stack)
    state = _state_of(module)
    constants: dict[str, Any] = {}
    inputs: list[InputSpec] = []
    by_node = {node: name for name, node in captured.weights.items()}
    lifted = {node: tensor for tensor, node in captured.constants}
    names = _constant_names(module)
    leaves = set(captured.inputs)
    parameter_names = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    for node in [n for n in graph.nodes if n.op == "placeholder"]:
        if node in leaves:
            value = node.meta["val"]
            arg: Any = TensorArgument(node.name)
            if not isinstance(value, torch.Tensor):
                arg = (
                    SymIntArgument(node.name) if isinstance(value, torch.SymInt) else ConstantArgument(node.name, value)
                )
            inputs.append(InputSpec(InputKind.USER_INPUT, arg, None))
        elif node in lifted:
            tensor = lifted[node]
            name = names.get(id(tensor)) or _free(f"lifted_tensor_{len(constants)}", constants)
            node.name = node.target = _free_node(graph, node, f"c_{name.replace('.', '_')}")
            constants[name] = tensor.detach()
            inputs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), name))
        else:
            name = by_node[node]
            if name in parameter_names:
                inputs.append(InputSpec(InputKind.PARAMETER, TensorArgument(node.name), name))
            else:
                persistent = name in state
                if not persistent:
                    constants[name] = module.get_buffer(name)
                inputs.append(InputSpec(InputKind.BUFFER, TensorArgument(node.name), name, persistent))
    root = torch.nn.Module()
    for name, inner in captured.recorder.graphs.items():
        root.add_module(name, inner)
    _group_modes(graph, root)
    results: Any = output.args[0]
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, argument_of(result), None) for result in results]
    signature = ModuleCallSignature([], [], in_spec, captured.out_spec, parameters)
    calls = [ModuleCallEntry("", signature)]
    calls += [ModuleCallEntry(name) for name, _ in module.named_modules() if name]
    return ExportedProgram(
        root,
        graph,
        ExportGraphSignature(inputs, outputs),
        state,
        plan.ranges,
        calls,
        examples,
        constants,
    )


def _state_of(module: torch.nn.Module) -> dict[str, Any]:
    """Return parameters and persistent buffers by name. The tensors are those of the module."""
    state: dict[str, Any] = dict(module.named_parameters(remove_duplicate=False))
    for path, part in module.named_modules(remove_duplicate=False):
        for name, value in part._buffers.items():
            if value is not None and name not in part._non_persistent_buffers_set:
                state[f"{path}.{name}" if path else name] = value
    return state


def _constant_names(module: torch.nn.Module) -> dict[int, str]:
    """Return the names of tensors that are attributes of the module, and neither parameters nor buffers."""
    found = {}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                found[id(value)] = f"{path}.{name}" if path else name
    return found


def _free(name: str, taken: Mapping[str, Any]) -> str:
    number = 0
    made = name
    while made in taken:
        number += 1
        made = f"{name}_{number}"
    return made


def _free_node(graph: fx.Graph, node: fx.Node, name: str) -> str:
    return _free(name, {n.name: n for n in graph.nodes if n is not node})


# ---- blocks without gradients, and of autocast


def _group_modes(graph: fx.Graph, root: torch.nn.Module) -> None:
    """Make graphs of the operators that ran without gradients or within autocast, as PyTorch does."""
    plain = (True, None, None)
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    current = torch.is_grad_enabled()
    number = 0
    i = 0
    while i < len(nodes):
        mode = nodes[i].meta.get("_modes")
        if mode is None or (mode[0] is current and mode[1:] == plain[1:]):
            i += 1
            continue
        end = i
        while end < len(nodes) and nodes[end].meta.get("_modes") == mode:
            end += 1
        number += 1
        _outline(graph, root, nodes[i:end], mode, f"submod_{number}")
        i = end
    for node in graph.nodes:
        node.meta.pop("_modes", None)


def _outline(graph: fx.Graph, root: torch.nn.Module, nodes: list[fx.Node], mode: Any, name: str) -> None:
    inside = set(nodes)
    inputs = list(dict.fromkeys(used for node in nodes for used in node.all_input_nodes if used not in inside))
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    inner = fx.Graph()
    env: dict[fx.Node, Any] = {}
    for used in inputs:
        env[used] = made = inner.placeholder(used.name)
        made.meta = {"val": used.meta.get("val")}
    for node in nodes:
        env[node] = inner.node_copy(node, lambda n: env[n])
        env[node].meta.pop("_modes", None)
    made = inner.output(tuple(env[node] for node in outputs))
    made.meta["val"] = tuple(node.meta.get("val") for node in outputs)
    root.add_module(name, fx.GraphModule(torch.nn.Module(), inner))
    higher = torch.ops.higher_order
    with graph.inserting_before(nodes[0]):
        read = graph.get_attr(name)
        grad, cpu, tpu = mode
        if cpu is None and tpu is None:
            call = graph.call_function(higher.wrap_with_set_grad_enabled, (grad, read, *inputs))
        else:
            kind, dtype = ("cpu", cpu) if cpu is not None else ("tpu", tpu)
            if grad is not torch.is_grad_enabled() or (cpu is not None and tpu is not None):
                raise NotImplementedError(
                    "torch.export.export: a block of autocast within another block, or within no_grad, is not captured"
                )
            call = graph.call_function(higher.wrap_with_autocast, (kind, dtype, True, True, read, *inputs))
        call.meta["val"] = tuple(node.meta.get("val") for node in outputs)
        # The call belongs to the module around all of them.
        stacks = [list((node.meta.get("nn_module_stack") or {}).items()) for node in nodes]
        common = [entries[0] for entries in zip(*stacks) if all(entry == entries[0] for entry in entries)]
        call.meta["nn_module_stack"] = dict(common)
        items = []
        for i, node in enumerate(outputs):
            item = graph.call_function(operator.getitem, (call, i))
            item.meta.update({key: value for key, value in node.meta.items() if key != "_modes"})
            items.append(item)
    for node, item in zip(outputs, items):
        node.replace_all_uses_with(item, delete_user_cb=lambda user: user not in inside and user is not call)
    for node in reversed(nodes):
        graph.erase_node(node)
