"""The recorder of operators that `make_fx` and `torch.export` share."""

from __future__ import annotations

import contextlib
import linecache
import operator
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytpu as torch

from ..._subclasses.fake_tensor import is_fake, unset_fake_temporarily
from ...overrides import TorchFunctionMode
from ...utils import _pytree as pytree
from ...utils._python_dispatch import TorchDispatchMode
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node

_C: Any = torch._C

#: Functions that make tensors of Python's or NumPy's values.
_OF_VALUES = (torch.tensor, torch.as_tensor, torch.from_numpy, torch.asarray)

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_MODULES = os.path.join(_PACKAGE, "nn", "modules")


class Recorder(TorchDispatchMode):
    """A mode that runs operators and adds a node for each of them to a graph.

    Args:
        graph: the graph.
        constant: a function of a tensor that is no result of the graph. It returns the node that reads it.
        keeps_compositions: whether operators that PyTorch composes of others, such as `linear`, are one node.
        rules: functions by overload, which take the place of operators.
        keep_notes: whether nodes get stack traces and the modules around them.
        value: as `constant`, for tensors that the program makes of Python's numbers.
    """

    def __init__(
        self,
        graph: Graph,
        constant: Callable[[torch.Tensor], Node],
        *,
        keeps_compositions: bool = False,
        rules: Any = None,
        keep_notes: bool = False,
        value: Callable[[torch.Tensor], Node] | None = None,
    ) -> None:
        super().__init__()
        self.graph, self.constant, self.rules = graph, constant, rules or {}
        self.value = value or constant
        self.keeps_compositions = keeps_compositions
        self.keep_notes = keep_notes
        self.nodes: dict[int, Node] = {}
        self._places: dict[Any, Node] = {}
        #: The tensors whose identity is a key stay alive.
        self.kept: list[Any] = []
        #: Graphs that operators call, by the name of the attribute.
        self.graphs: dict[str, GraphModule] = {}
        #: The modules that are running: a key, a path, and a class for each.
        self.modules: list[tuple[str, str, str]] = []

    def track(self, value: torch.Tensor, node: Node) -> None:
        """Note that a tensor is the value of a node."""
        self.nodes[id(value)] = node
        self._places[_place(value)] = node
        self._places.pop(None, None)
        self.kept.append(value)

    def node_of(self, value: torch.Tensor) -> Node:
        """Return the node of a tensor. One that is no result of the graph becomes a constant."""
        node = self.nodes.get(id(value))
        if node is None:
            # Backward makes other objects for the same elements.
            node = self._places.get(_place(value)) or self.constant(value)
            self.track(value, node)
        return node

    def argument(self, value: Any) -> Any:
        """Return an argument with nodes in place of tensors."""
        if isinstance(value, torch.Tensor):
            return self.node_of(value)
        if isinstance(value, (list, tuple)):
            items = [self.argument(item) for item in value]
            return items if type(value) in (list, torch.Size) else tuple(items)
        if isinstance(value, dict):
            return {key: self.argument(item) for key, item in value.items()}
        return value

    def record(self, func: Any, args: Any, kwargs: Any, result: Any) -> Node:
        """Add the node of a call with its result."""
        name = func.overloadpacket.__name__ if hasattr(func, "overloadpacket") else func.__name__
        node = self.graph.create_node(
            "call_function", func, tuple(self.argument(a) for a in args), self.argument(dict(kwargs)), name=name
        )
        self._note(node)
        self.results(node, result)
        return node

    def results(self, node: Node, result: Any) -> None:
        """Note the value of a node, and add nodes for the items of several."""
        node.meta["val"] = described(result)
        if isinstance(result, torch.Tensor):
            self.track(result, node)
        elif isinstance(result, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in result):
            for i, item in enumerate(result):
                if isinstance(item, (torch.Tensor, list, tuple)):
                    part = self.graph.call_function(operator.getitem, (node, i))
                    part.meta.update({key: value for key, value in node.meta.items() if key != "val"})
                    self.results(part, item)

    def make_value(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the tensor of Python's or NumPy's values that a function makes: a constant of the graph."""
        with unset_fake_temporarily() as mode, without_modes():
            real = func(*args, **kwargs)
        if not isinstance(real, torch.Tensor) or is_fake(real):
            return real
        with without_modes():
            value = real.clone() if mode is None else mode.from_tensor(real.detach())
        node = self.value(real)
        copy = torch.ops.aten.lift_fresh_copy.default
        made = self.graph.create_node("call_function", copy, (node,), {}, name="lift_fresh_copy")
        self._note(made)
        self.results(made, value)
        with without_modes():
            return value.requires_grad_(real.requires_grad)

    def record_choice(self, pred: torch.Tensor, true_fn: Any, false_fn: Any, operands: Any) -> Any:
        """Add a node of `torch.cond`, with a graph for each function."""
        leaves, spec = pytree.tree_flatten(tuple(operands))
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            raise RuntimeError(
                "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves"
            )
        outer = [self.node_of(leaf) for leaf in leaves]
        number = sum(name.startswith("true_graph") for name in self.graphs)
        branches = [self._branch(fn, leaves, spec, outer) for fn in (true_fn, false_fn)]
        if branches[0].out_spec != branches[1].out_spec:
            raise RuntimeError("Unmatched output spec from torch.cond branches: the functions return other trees")
        # Values from outside that a function reads become operands of both.
        extra = list(dict.fromkeys(node for branch in branches for node in branch.outside))
        reads = []
        for name, branch in zip(("true", "false"), branches):
            for node in extra:
                branch.placeholder(node)
            branch.order(extra)
            self.graphs[f"{name}_graph_{number}"] = GraphModule(torch.nn.Module(), branch.graph)
            for key, module in branch.recorder.graphs.items():
                self.graphs[f"{name}_graph_{number}"].add_module(key, module)
            reads.append(self.graph.create_node("get_attr", f"{name}_graph_{number}"))
        args = (self.node_of(pred), *reads, (*outer, *extra))
        node = self.graph.create_node("call_function", torch.ops.higher_order.cond, args, name="cond")
        self._note(node)
        results = branches[0].results
        for x, y in zip(results, branches[1].results):
            if (x.shape, x.dtype) != (y.shape, y.dtype):
                raise RuntimeError(
                    f"Expect outputs of torch.cond branches to have the same sizes and dtypes, but got "
                    f"{tuple(x.shape)} {x.dtype} and {tuple(y.shape)} {y.dtype}"
                )
        self.results(node, tuple(results))
        return pytree.tree_unflatten(results, branches[0].out_spec)

    def _branch(self, function: Any, leaves: list[Any], spec: Any, outer: list[Node]) -> _Branch:
        # The operators of the function are not in this graph.
        popped = _C._pop_torch_dispatch_mode()
        try:
            return _Branch(self, function, leaves, spec, outer)
        finally:
            _C._push_torch_dispatch_mode(popped)

    def _note(self, node: Node) -> None:
        if self.keep_notes:
            trace = stack_trace()
            if trace:
                node.meta["stack_trace"] = trace
            node.meta["nn_module_stack"] = {key: (path, kind) for key, path, kind in self.modules}
            node.meta["_modes"] = modes()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        rule = self.rules.get(func)
        if rule is not None:
            with self:
                result = rule(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if func in _WITHOUT_NODES:
            return result
        self.record(func, args, kwargs, result)
        return result


class _Branch:
    """The graph of a function that `torch.cond` may call."""

    def __init__(self, parent: Recorder, function: Any, leaves: list[Any], spec: Any, outer: list[Node]) -> None:
        self.graph, self.parent = Graph(), parent
        #: Parameters by the nodes outside whose values they get.
        self.outside: dict[Node, Node] = {}
        self.recorder = Recorder(
            self.graph,
            self._read,
            keeps_compositions=parent.keeps_compositions,
            rules=parent.rules,
            keep_notes=parent.keep_notes,
            value=self._value,
        )
        self.recorder.modules = parent.modules
        self.operands = []
        # Views keep the values apart from those outside.
        values = []
        for leaf, node in zip(leaves, outer):
            made = self.graph.placeholder(node.name)
            made.meta["val"] = described(leaf)
            with without_modes():
                value = torch._C._fake_of(leaf.detach()) if is_fake(leaf) else leaf.detach()
            self.recorder.track(value, made)
            self.operands.append(made)
            values.append(value)
        with self.recorder:
            result = function(*pytree.tree_unflatten(values, spec))
        self.results, self.out_spec = pytree.tree_flatten(result)
        if not all(isinstance(value, torch.Tensor) for value in self.results):
            raise RuntimeError("Expect outputs of torch.cond branches to be tensors")
        output = self.graph.output(tuple(self.recorder.node_of(value) for value in self.results))
        output.meta["val"] = described(tuple(self.results))
        for node in self.graph.nodes:
            node.meta.pop("_modes", None)

    def _read(self, tensor: torch.Tensor) -> Node:
        return self.placeholder(self.parent.node_of(tensor))

    def _value(self, tensor: torch.Tensor) -> Node:
        return self.placeholder(self.parent.value(tensor))

    def placeholder(self, node: Node) -> Node:
        """Return the parameter that gets the value of a node outside."""
        if node not in self.outside:
            first = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
            with self.graph.inserting_before(first) if first is not None else contextlib.nullcontext():
                made = self.graph.placeholder(node.name)
            made.meta["val"] = node.meta.get("val")
            self.outside[node] = made
        return self.outside[node]

    def order(self, nodes: list[Node]) -> None:
        """Put the parameters in the order of the nodes outside."""
        last = self.operands[-1] if self.operands else self.graph._root
        for node in nodes:
            last.append(self.outside[node])
            last = self.outside[node]


def _place(value: torch.Tensor) -> Any:
    """Return where the elements of a tensor are, or `None` if it has none in memory."""
    if is_fake(value) or not value.numel() or value.device.type != "cpu":
        return None
    with without_modes():
        return value.data_ptr(), value.shape, value.stride(), value.dtype


#: Operators that only give values to Python.
_WITHOUT_NODES = {torch.ops.aten._local_scalar_dense.default}


def described(value: Any) -> Any:
    """Return the description of a value: fake tensors in place of tensors."""

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        return torch._C._fake_of(tensor.detach())

    with without_modes():
        return pytree.tree_map_only(torch.Tensor, fake, value)


def modes() -> tuple[Any, ...]:
    """Return the settings that operators read: whether gradients are recorded, and the dtypes of autocast."""
    found: list[Any] = [torch.is_grad_enabled()]
    for kind in ("cpu", "tpu"):
        found.append(torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None)
    return tuple(found)


def stack_trace() -> str:
    """Return the lines of the user and of modules that are running, in the form of tracebacks."""
    lines: list[str] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        path = code.co_filename
        is_own = path.startswith(_PACKAGE)
        if code.co_name == "_traced_program":
            break
        if not is_own or (path.startswith(_MODULES) and code.co_name == "forward"):
            text = linecache.getline(path, frame.f_lineno).strip()
            lines.append(f'File "{path}", line {frame.f_lineno}, in {code.co_name}\n    {text}')
        frame = frame.f_back
    return "\n  ".join(reversed(lines))


class _Values(TorchFunctionMode):
    """Makes tensors of Python's values real, also where new tensors are fake, and hands them to the recorder."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.new_tensor and not isinstance(args[1:] and args[1], torch.Tensor):
            tensor, *data = args
            kwargs = {"dtype": tensor.dtype, "device": tensor.device, **(kwargs or {})}
            func, args = torch.tensor, data
        if func in _OF_VALUES and not (args and isinstance(args[0], torch.Tensor)):
            recorder = next((m for m in reversed(_C._torch_dispatch_modes()) if isinstance(m, Recorder)), None)
            if recorder is not None:
                return recorder.make_value(func, args, kwargs or {})
            # The body of an operator that is recorded itself.
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def without_modes() -> Iterator[None]:
    """Return a block in which no mode answers calls below autograd."""
    before = _C._set_torch_dispatch_disabled(True)
    try:
        yield
    finally:
        _C._set_torch_dispatch_disabled(before)


@contextlib.contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Return a block whose operators are recorded."""
    original = torch.from_numpy

    def from_numpy(ndarray: Any) -> torch.Tensor:
        return recorder.make_value(original, (ndarray,), {})

    # No mode sees this function.
    torch.from_numpy = from_numpy
    try:
        with recorder, _Values():
            yield
    finally:
        torch.from_numpy = original


@contextlib.contextmanager
def noting_modules(recorder: Recorder, root: torch.nn.Module) -> Iterator[None]:
    """Return a block in which the recorder knows the modules that run."""
    from ...nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    names = {id(module): name for name, module in root.named_modules()}
    calls: dict[str, int] = {}

    def enter(module: torch.nn.Module, args: Any) -> None:
        path = names.get(id(module))
        if path is None:
            path = recorder.modules[-1][1] if recorder.modules else ""
        number = calls.get(path, 0)
        calls[path] = number + 1
        key = "L__self__" + (f"_{path.replace('.', '_')}" if path else "") + (f"@{number}" if number else "")
        shown = f"{path}@{number}" if number and path else path
        recorder.modules.append((key, shown, f"{_public(type(module))}"))

    def leave(module: torch.nn.Module, args: Any, result: Any) -> None:
        recorder.modules.pop()

    first = register_module_forward_pre_hook(enter)
    last = register_module_forward_hook(leave, always_call=True)
    try:
        yield
    finally:
        first.remove()
        last.remove()


def _public(kind: type) -> str:
    module = kind.__module__
    module = "torch" + module[5:] if module == "pytpu" or module.startswith("pytpu.") else module
    return f"{module}.{kind.__qualname__}"
