"""`torch.fx.proxy`: stand-ins for values, which record the operations that a program calls on them."""

from __future__ import annotations

import collections
import copy
import dataclasses
import dis
import enum
import functools
import inspect
import logging
import operator
import os
import sys
import traceback
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytpu as torch

from ..utils._pytree import tree_map_
from . import config, traceback as fx_traceback
from ._compatibility import compatibility
from .graph import Graph, magic_methods, reflectable_magic_methods
from .node import Argument, Node, Target, _as_torch_name, base_types, map_arg
from .operator_schemas import check_for_mutable_operation

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "MetaProxy",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

log = logging.getLogger(__name__)
_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


@compatibility(is_backward_compatible=False)
class Scope:
    """The module whose forward is traced: its path and its type."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


@compatibility(is_backward_compatible=False)
class ScopeContextManager:
    """Context in which `scope` is equal to `current_scope`."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._prev_scope = scope, copy.copy(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *error: object) -> None:
        self._scope.module_path, self._scope.module_type = self._prev_scope.module_path, self._prev_scope.module_type


# Notes that a new node gets from the node that is run.
_COPY_META_FIELDS = [
    "nn_module_stack",
    "torch_fn",
    "source_fn_stack",
    "original_aten",
    "recompute",
    "ac_graph_id",
    "has_backward_hook",
    "from_node",
    "quantization_tag",
    "_numeric_debug_handle",
    "custom",
    "partitioner_tag",
]


@compatibility(is_backward_compatible=True)
class TracerBase:
    """The half of a tracer that makes nodes and proxies."""

    graph: Graph
    #: Put the lines of the program on the nodes.
    record_stack_traces: bool = False
    # Keep only frames of functions named `forward`.
    _record_forward_stack_traces_only: bool = False
    #: Refuse operators that write to their operands.
    check_mutable_operations: bool = False
    #: Record assertions about traced values.
    trace_asserts: bool = False
    #: Record reads of buffers too.
    proxy_buffer_attributes: bool = False
    #: The method of a module that is traced.
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    @compatibility(is_backward_compatible=True)
    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Insert a node. Subclasses refuse nodes, or change them.

        Args:
            kind: The kind: see `Node`.
            target: The function, or a text for other kinds.
            args: Positional arguments.
            kwargs: Keyword arguments.
            name: The wish for the name of the value.
            type_expr: The annotation of the value.
        """
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)  # type: ignore[arg-type]
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            self._copy_notes(node)
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace and not config.do_not_emit_stack_traces:
            frames = self._filter_traceback_frames(traceback.extract_stack())
            if frames:
                node.stack_trace = "".join(frames.format()).strip()
        log.debug("create_node %s", node)
        return node

    @staticmethod
    def _copy_notes(node: Node) -> None:
        notes = fx_traceback.get_current_meta()
        if notes.get("stack_trace"):
            node.stack_trace = notes["stack_trace"]
        for field in _COPY_META_FIELDS:
            if field in notes:
                node.meta[field] = copy.copy(notes[field])
        if notes.get("in_grad_fn", 0) > 0:
            node.meta["seq_nr"] = notes["grad_fn_seq_nr"][-1]
        elif "seq_nr" in notes:
            node.meta["seq_nr"] = notes["seq_nr"]
        replayed = fx_traceback.get_current_replay_node()
        if replayed is not None:
            node.meta["is_functional_regenerated"] = True
            node.meta.update({key: replayed.meta[key] for key in ("custom", "stack_trace") if key in replayed.meta})
        if notes.get("autograd_backward", False):
            node.meta["autograd_backward"] = True

    def _filter_traceback_frames(self, user_stack_summary: traceback.StackSummary) -> traceback.StackSummary:
        frames = list(user_stack_summary)
        if self._record_forward_stack_traces_only:
            frames = [
                frame
                for frame in frames
                if frame.name == "forward" or (frame.filename, frame.name) in fx_traceback._anchors
            ]
        else:
            # A trace without a `forward` is not about the program.
            first = next((i for i, frame in enumerate(frames) if frame.name == "forward"), len(frames))
            frames = frames[first:]
        return traceback.StackSummary.from_list([f for f in frames if not f.filename.startswith(_FOLDER)])

    @compatibility(is_backward_compatible=True)
    def proxy(self, node: Node) -> Proxy:
        """Return the proxy of a node."""
        return Proxy(node, self)

    @compatibility(is_backward_compatible=True)
    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Insert a node whose arguments are values of the program, and return its proxy.

        Args:
            kind: The kind: see `Node`.
            target: The function, or a text for other kinds.
            args: Positional arguments. For a placeholder, its default.
            kwargs: Keyword arguments.
            name: The wish for the name of the value.
            type_expr: The annotation of the value.
            proxy_factory_fn: A function that makes the proxy of the node.
        """
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args_, tuple):
            raise AssertionError(f"Expected args_ to be tuple, got {type(args_)}")
        if not isinstance(kwargs_, dict):
            raise AssertionError(f"Expected kwargs_ to be dict, got {type(kwargs_)}")
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def _find_user_frame(self) -> types.FrameType | None:
        """Return the frame of the program that is traced."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename.startswith(_FOLDER):
            frame = frame.f_back
        return frame

    @compatibility(is_backward_compatible=True)
    def create_arg(self, a: Any) -> Argument:
        """Return the argument of a node for a value of the program. Subclasses support more types.

        Raises:
            NotImplementedError: Graphs do not have values of this type.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            if hasattr(a, "_fields"):
                return type(a)(*items)
            # Tuples with names of C functions are tuples in graphs.
            return tuple(items) if type(a).__module__ == "torch.return_types" else type(a)(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self._create_key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, (slice, range)):
            return type(a)(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
            return a
        if dataclasses.is_dataclass(a):
            fields = {field.name: self.create_arg(getattr(a, field.name)) for field in dataclasses.fields(a)}
            return self.create_node("call_function", a.__class__, (), fields)
        if isinstance(a, (*base_types, enum.Enum)) or a is None or a is ...:
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_key(self, key: Any) -> Any:
        if isinstance(key, str):
            return key
        made = self.create_arg(key)
        map_arg(made, _refuse_key)
        return made

    @compatibility(is_backward_compatible=True)
    def to_bool(self, obj: Proxy) -> bool:
        """Return the truth of a traced value. Tracers that know more about values override this.

        Raises:
            TraceError: Always.
        """
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    @compatibility(is_backward_compatible=True)
    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Return an iterator over a traced value. Tracers that know more about values override this.

        Raises:
            TraceError: Always.
        """
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    @compatibility(is_backward_compatible=True)
    def keys(self, obj: Proxy) -> Any:
        """Return the keys of a traced value, for `**`: a call of its method `keys`."""
        return Attribute(obj, "keys")()


def _refuse_key(arg: Node) -> Node:
    raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {arg}")


@compatibility(is_backward_compatible=True)
class GraphAppendingTracer(TracerBase):
    """A tracer that adds to a graph, for proxies that are made from nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


@compatibility(is_backward_compatible=False)
def assert_fn(x: object) -> None:
    """Assert that a value is true."""
    if not x:
        raise AssertionError("Assertion failed")


@compatibility(is_backward_compatible=True)
class TraceError(ValueError):
    """A traced program needs a value that is not known."""


def _instructions_at(frame: types.FrameType) -> list[dis.Instruction]:
    """Return the instruction that a frame runs, and those after it."""
    return [inst for inst in dis.get_instructions(frame.f_code) if inst.offset >= frame.f_lasti]


def _is_assertion(frame: types.FrameType) -> bool:
    """Return whether a frame asks for a truth value in order to assert it."""
    rest = [inst for inst in _instructions_at(frame) if inst.opname not in ("TO_BOOL", "CACHE", "NOT_TAKEN")]
    if len(rest) < 2 or not (rest[0].opname.startswith("POP_JUMP") and rest[0].opname.endswith("IF_TRUE")):
        return False
    loads = ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT", "LOAD_GLOBAL")
    named = rest[1].opname == loads[0] or rest[1].argval in (AssertionError, "AssertionError")
    return rest[1].opname in loads and named


@functools.cache
def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters of a function that is written in Python, or `None`."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    return parameters if all(p.kind in kinds for p in parameters) else None


# Operators of tensors that PyTorch names by their functions.
_OPERATORS = {f"__{name}__": name for name in "eq ne lt gt le ge".split()}


def _public(function: Any) -> Any:
    """Return the public function for one that took over a call: PyTorch reports some in `torch.functional`."""
    if isinstance(function, types.FunctionType):
        name, code = function.__name__, function.__code__
        for owner in (torch, torch.nn.functional):
            public = getattr(owner, name, None)
            if public is not function and isinstance(public, types.FunctionType) and public.__code__ is code:
                if getattr(public, "__wrapped__", None) is getattr(function, "__wrapped__", None):
                    return public
    return function


def _with_defaults(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call in PyTorch's form: those without a default by position, the others by keyword.

    PyTorch's functions that are written in Python, such as `torch.nn.functional.relu`, hand their calls over so.
    """
    module = _as_torch_name(getattr(function, "__module__", None) or "")
    if not isinstance(function, types.FunctionType) or module not in ("torch.functional", "torch.nn.functional"):
        return args, kwargs
    parameters = _parameters(function)
    if parameters is None:
        return args, kwargs
    try:
        inspect.Signature(parameters).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}() {error}") from None
    given = {**{p.name: arg for p, arg in zip(parameters, args)}, **kwargs}
    optional = {p.name: given.get(p.name, p.default) for p in parameters if p.default is not inspect.Parameter.empty}
    return tuple(given[p.name] for p in parameters if p.name not in optional), optional


@compatibility(is_backward_compatible=True)
class Proxy:
    """The stand-in for a value while a program is traced. Operations on it become nodes of the graph.

    A loop over a proxy, and a condition, raise `TraceError`, because its value is not known. `torch.fx.wrap`
    keeps a function from being traced, and `concrete_args` of `symbolic_trace` gives parameters values.

    Args:
        node: The node of the value.
        tracer: The tracer that gets the operations. Without it, they are added to the graph of `node`.
    """

    @compatibility(is_backward_compatible=True)
    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        return Attribute(self, k)

    # Without these, `copy` and `pickle` would find the proxies of attributes.

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__ = d

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        made = Proxy.__new__(Proxy)
        for key, value in self.__dict__.items():
            try:
                made.__dict__[key] = copy.deepcopy(value, memo)
            except Exception:
                log.warning(
                    "Shallow copy %s of Proxy because it cannot be deepcopied. Proxy is created for node %s",
                    key,
                    self.node.name,
                )
                made.__dict__[key] = copy.copy(value)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        instruction = _instructions_at(sys._getframe(1))[0]
        if instruction.opname == "UNPACK_SEQUENCE":
            # `a, b = x` says how many items there are.
            return (self[i] for i in range(instruction.argval))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_assertion(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    @compatibility(is_backward_compatible=True)
    def keys(self) -> Any:
        """Return the keys of the value: see `TracerBase.keys`."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def see(value: Any) -> None:
            if isinstance(value, cls):
                tracers[value.tracer] = None

        tree_map_(see, args)
        tree_map_(see, kwargs)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(tracers))
        if torch.overrides.is_tensor_method_or_property(orig_method):
            name = orig_method.__name__
            return tracer.create_proxy("call_method", _OPERATORS.get(name, name), args, kwargs)
        orig_method = _public(orig_method)
        if orig_method is torch.einsum and len(args) == 2 and isinstance(args[1], (list, tuple)):
            args = (args[0], *args[1])
        elif orig_method is torch.meshgrid:
            kwargs = {"indexing": None, **kwargs}
        args, kwargs = _with_defaults(orig_method, args, kwargs)
        name = tracer.graph._target_to_str(orig_method.__name__)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


@compatibility(is_backward_compatible=False)
class MetaProxy(Proxy):
    """A proxy that also computes: `node.meta["val"]` has the value, made within the context `fake_mode`."""

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> MetaProxy:
        args, kwargs = args or (), kwargs or {}
        first = next((arg for arg in args if isinstance(arg, MetaProxy)), None)
        if first is None:
            raise AssertionError("No MetaProxy found in arguments, but one is expected.")
        made = super().__torch_function__(orig_method, types, args, kwargs)
        with first.fake_mode:
            values = [arg.node.meta["val"] if isinstance(arg, Proxy) else arg for arg in args]
            made.node.meta["val"] = orig_method(*values, **kwargs)
        return MetaProxy(made.node, made.tracer, first.fake_mode)


@compatibility(is_backward_compatible=True)
class Attribute(Proxy):
    """An attribute of a proxy. Its node is made when it is read, and not if it is called as a method."""

    @compatibility(is_backward_compatible=True)
    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


@compatibility(is_backward_compatible=False)
class ParameterProxy(Proxy):
    """The proxy of a parameter, which knows its sizes: see `param_shapes_constant` of `Tracer`."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: torch.nn.Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, torch.nn.Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> torch.Size:
        """The sizes of the parameter."""
        return self.param.shape

    def size(self) -> torch.Size:
        """Return the sizes of the parameter."""
        return self.param.size()

    def dim(self) -> int:
        """Return the number of dimensions of the parameter."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The number of dimensions of the parameter."""
        return self.param.ndim

    def numel(self) -> int:
        """Return the number of elements of the parameter."""
        return self.param.numel()

    def nelement(self) -> int:
        """Return the number of elements of the parameter."""
        return self.param.nelement()


def _magic(name: str) -> Callable[..., Proxy]:
    target = getattr(operator, name)

    def method(*args: Any, **kwargs: Any) -> Proxy:
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    method.__name__ = name
    return method


def _reflect(name: str) -> Callable[..., Proxy]:
    target = getattr(operator, name)

    def method(self: Proxy, rhs: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (rhs, self), {})

    method.__name__ = method.__qualname__ = f"__r{name.strip('_')}__"
    return method


for _name in magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__{_name.strip('_')}__", _magic(_name))
for _name in reflectable_magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__r{_name.strip('_')}__", _reflect(_name))
