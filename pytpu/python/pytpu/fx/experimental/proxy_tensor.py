"""`torch.fx.experimental.proxy_tensor`: graphs of operators."""

from __future__ import annotations

import contextlib
import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import pytpu as torch

from ..._subclasses.fake_tensor import FakeTensorMode
from ...utils import _pytree as pytree
from .._compatibility import compatibility
from ..graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from ..graph_module import GraphModule
from ..node import Node
from ._record import Recorder, described, recording

_C: Any = torch._C

__all__ = ["get_innermost_proxy_mode", "get_proxy_mode", "make_fx", "maybe_disable_proxy_mode"]


def get_proxy_mode() -> Recorder | None:
    """Return the mode that makes a graph in this thread, or `None`."""
    return next((mode for mode in reversed(_C._torch_dispatch_modes()) if isinstance(mode, Recorder)), None)


get_innermost_proxy_mode = get_proxy_mode


@contextlib.contextmanager
def maybe_disable_proxy_mode() -> Any:
    """Return a block whose operators are in no graph."""
    from ._record import without_modes

    with without_modes():
        yield


disable_proxy_modes_tracing = maybe_disable_proxy_mode


@compatibility(is_backward_compatible=False)
def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
) -> Callable[..., GraphModule]:
    """Return a function that runs `f` and returns the graph of the operators of aten that it called.

    Operators that PyTorch composes of others are in the graph by their parts. Derivatives that `f` computes are in
    the graph, too.

    Args:
        f: a function or module.
        decomposition_table: functions by overload, whose operators take the place of a call of it.
        tracing_mode: `real` runs with the arguments, `fake` with their descriptions only. `symbolic` does as
            `fake` here: sizes in the graph are numbers.
        pre_dispatch: keep operators that PyTorch composes of others.
        record_module_stack: note the modules around each node.
        record_stack_traces: note the lines of each node.

    Raises:
        AssertionError: There is no such `tracing_mode`.

    Example:
        >>> import pytpu as torch
        >>> from torch.fx.experimental.proxy_tensor import make_fx
        >>> print(make_fx(lambda x: x.sin() + 1)(torch.ones(2)).code.strip())
        def forward(self, x_1):
            sin = torch.ops.aten.sin.default(x_1);  x_1 = None
            add = torch.ops.aten.add.Tensor(sin, 1);  sin = None
            return add
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"tracing_mode must be one of 'real', 'fake', 'symbolic', got {tracing_mode!r}")

    @functools.wraps(f if not isinstance(f, torch.nn.Module) else f.forward)
    def wrapped(*args: Any) -> GraphModule:
        return _trace(
            f, args, decomposition_table, tracing_mode, pre_dispatch, record_module_stack, _allow_non_fake_inputs
        )

    return wrapped


def _names(f: Any, count: int) -> list[str]:
    """Return the names of the parameters of a function for a number of arguments."""
    if isinstance(f, torch.nn.Module):
        return [f"arg{i}" for i in range(count)]
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return [f"arg{i}" for i in range(count)]
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return [f"arg{i}" for i in range(count)]
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names[:count] if len(names) >= count else [f"arg{i}" for i in range(count)]


def _trace(
    f: Any, args: tuple[Any, ...], table: Any, mode: str, pre_dispatch: bool, notes: bool, allow_real: bool
) -> GraphModule:
    graph, root = Graph(), torch.nn.Module()
    names = _names(f, len(args))
    fake_mode = None if mode == "real" else FakeTensorMode(allow_non_fake_inputs=True)
    numbers = {"_param_constant": 0, "_tensor_constant": 0}

    def constant(tensor: torch.Tensor, is_value: bool = False) -> Node:
        is_parameter = is_value or isinstance(tensor, torch.nn.Parameter)
        if fake_mode is not None and not allow_real and not is_parameter and not torch._C._is_fake(tensor):
            raise AssertionError(
                "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                f"'allow_non_fake_inputs'. Found {type(tensor).__name__} of size {tuple(tensor.shape)}"
            )
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        kind = "_param_constant" if is_parameter else "_tensor_constant"
        name = f"{kind}{numbers[kind]}"
        numbers[kind] += 1
        if is_parameter:
            root.register_parameter(name, tensor)  # type: ignore[arg-type]
        else:
            root.register_buffer(name, tensor)
        node = graph.create_node("get_attr", name)
        node.meta["val"] = described(tensor)
        return node

    recorder = Recorder(
        graph,
        constant,
        keeps_compositions=pre_dispatch,
        rules=table,
        keep_notes=notes,
        value=lambda tensor: constant(tensor, True),
    )
    leaves, spec = pytree.tree_flatten(args)
    is_nested = any(not child.is_leaf() for child in spec.children())
    values = []
    flat_names = [name for name, child in zip(names, spec.children()) for _ in range(child.num_leaves)]
    for name, leaf in zip(flat_names, leaves):
        value = leaf
        if isinstance(leaf, torch.Tensor) and fake_mode is not None:
            value = fake_mode.from_tensor(leaf)
        node = graph.placeholder(f"{name}_1")
        node.meta["val"] = described(value)
        if isinstance(value, torch.Tensor):
            recorder.track(value, node)
        values.append(value)
    with contextlib.ExitStack() as stack:
        if fake_mode is not None:
            stack.enter_context(fake_mode)
            stack.enter_context(_fake_weights(f, fake_mode, recorder, constant))
        stack.enter_context(recording(recorder))
        result = f(*pytree.tree_unflatten(values, spec))
    for name, inner in recorder.graphs.items():
        root.add_module(name, inner)
    outputs, out_spec = pytree.tree_flatten(result)
    nodes = [recorder.node_of(v) if isinstance(v, torch.Tensor) else v for v in outputs]
    if is_nested:
        graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(list(names), spec, out_spec)))
        graph.output(nodes)
    else:
        graph.output(pytree.tree_unflatten(nodes, out_spec))
    _without_dead_items(graph)
    return GraphModule(root, graph)


@contextlib.contextmanager
def _fake_weights(f: Any, mode: FakeTensorMode, recorder: Recorder, constant: Callable[[torch.Tensor], Node]) -> Any:
    """Return a block in which the weights of a module are fake."""
    if not isinstance(f, torch.nn.Module):
        yield
        return
    changed: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for module in f.modules():
            for table in typing.cast("list[dict[str, Any]]", [module._parameters, module._buffers]):
                for name, value in table.items():
                    if isinstance(value, torch.Tensor) and not torch._C._is_fake(value):
                        fake = mode.from_tensor(value)
                        changed.append((table, name, value))
                        table[name] = fake
                        if id(fake) not in recorder.nodes:
                            real = constant(value)
                            recorder.track(fake, real)
        yield
    finally:
        for table, name, value in changed:
            table[name] = value


def _without_dead_items(graph: Graph) -> None:
    """Erase constants that nothing reads."""
    for node in reversed(list(graph.nodes)):
        if node.op == "get_attr" and not node.users:
            graph.erase_node(node)
