"""`torch.fx._symbolic_trace`: run a function with proxies, and keep what it calls on them as a graph."""

from __future__ import annotations

import builtins
import collections
import contextlib
import copy
import functools
import inspect
import logging
import math
import os
import threading
import typing
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytpu as torch

from ..utils import _pytree as pytree
from ._compatibility import compatibility
from .graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from .graph_module import GraphModule
from .node import Argument, base_types, map_aggregate
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

log = logging.getLogger(__name__)

HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_Module = torch.nn.Module
_orig_module_call: Callable[..., Any] = _Module.__call__
_orig_module_getattr: Callable[..., Any] = _Module.__getattr__
# Classes whose construction is recorded.
_proxyable_classes: dict[type, None] = {}
_constant_attribute_types = (torch.Tensor, pytree.TreeSpec)
_state = threading.local()


# ---- whether a trace is made


@functools.lru_cache
def is_fx_tracing_warning() -> None:
    """Say once that `is_fx_tracing` is about every kind of trace."""
    log.warning(
        "is_fx_tracing will return true for both fx.symbolic_trace and torch.export. Please use "
        "is_fx_tracing_symbolic_tracing() for specifically fx.symbolic_trace or torch.compiler.is_compiling() for "
        "specifically torch.export/compile."
    )


def _get_is_fx_tracing() -> bool:
    return getattr(_state, "is_tracing", False)


@contextlib.contextmanager
def _is_fx_tracing_context(value: bool) -> Iterator[None]:
    before = _get_is_fx_tracing()
    _state.is_tracing = value
    try:
        yield
    finally:
        _state.is_tracing = before


def is_fx_tracing() -> bool:
    """Return whether this thread makes a trace."""
    is_fx_tracing_warning()
    return _get_is_fx_tracing()


def is_fx_symbolic_tracing() -> bool:
    """Return whether this thread makes a trace with proxies."""
    return _get_is_fx_tracing() and not torch.compiler.is_compiling()


@compatibility(is_backward_compatible=True)
class ProxyableClassMeta(type):
    """A metaclass. In a trace, making an object of its classes from proxies is recorded as a call of the class."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs) if _get_is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        made = cls.__new__(cls)  # type: ignore[call-overload]
        cls.__init__(made, *args, **kwargs)  # type: ignore[misc]
        return made


# ---- placeholders


@compatibility(is_backward_compatible=False)
class PHBase:
    """A value of `concrete_args` that stays a parameter."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


@compatibility(is_backward_compatible=False)
class PHWithMeta(PHBase):
    """The same, whose attributes the node of the parameter gets.

    Args:
        ph_key: A name for the parameter.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


def _transfer_attrs(fr: object, to: object) -> None:
    for name in dir(fr):
        value = getattr(fr, name)
        if not name.startswith("__") and not callable(value) and not hasattr(to, name):
            setattr(to, name, value)


def _patch_function(fn: FunctionType, nargs: int) -> FunctionType:
    """Return the function with all of its parameters as positional ones, also `*args` and `**kwargs`."""
    code = fn.__code__.replace(
        co_argcount=nargs,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=fn.__code__.co_flags & ~HAS_VARSTUFF,
    )
    return FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


# ---- the tracer


@compatibility(is_backward_compatible=True)
class Tracer(TracerBase):
    """A tracer of modules and functions. Subclasses change which modules are leaves, and what becomes of values.

    Args:
        autowrap_modules: Modules of Python whose functions are called, not traced into, if an argument is a proxy.
        autowrap_functions: More such functions.
        param_shapes_constant: Let sizes of parameters be numbers, not proxies.
    """

    @compatibility(is_backward_compatible=True)
    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self._autowrap_function_ids: set[int] = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self.param_shapes_constant = param_shapes_constant
        self.root: Any = None
        self.submodule_paths: dict[torch.nn.Module, str] | None = None
        self.root_module_name: str = ""
        self.tensor_attrs: dict[Any, str] = {}
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    @classmethod
    def _graph_module_deserialization_tracer(cls, root: torch.nn.Module) -> Tracer:
        """Return the tracer for the code of a pickled graph module."""
        return cls()

    _qualname_counter: dict[str, int] = collections.defaultdict(int)

    @compatibility(is_backward_compatible=True)
    def get_fresh_qualname(self, prefix: str) -> str:
        """Return `prefix` with the first number for which the root has no attribute."""
        number = self._qualname_counter[prefix] if hasattr(self.root, f"{prefix}0") else 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number + 1 if number else 0
        return f"{prefix}{number}"

    @compatibility(is_backward_compatible=True)
    def create_arg(self, a: Any) -> Argument:
        """Return the argument of a node for a value of the program.

        Parameters, buffers and modules become reads of the attribute that has them. Another tensor becomes an
        attribute of the root first.

        Raises:
            NameError: A parameter does not belong to the root.
            NotImplementedError: Graphs do not have values of this type.
        """
        if isinstance(a, torch.nn.Parameter):
            name = self._name_in(self.root.named_parameters(), a)
            if name is None:
                raise NameError("parameter is not a member of this module")
            return self._read(name)
        if isinstance(a, torch.Tensor):
            name = self._name_in(self.root.named_buffers(), a)
            if name is not None:
                return self._read(name)
        elif isinstance(a, torch.nn.Module):
            name = self._name_in(self.root.named_modules(), a)
            if name is not None:
                return self._read(name)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", a.__class__, tuple(self.create_arg(item) for item in a), {})
        if isinstance(a, _constant_attribute_types):
            name = self.tensor_attrs.get(a)
            if not name:
                name = self._keep(a, "_tensor_constant" if isinstance(a, torch.Tensor) else "_tree_spec_constant")
                self.tensor_attrs[a] = name
            return self._read(name)
        if type(a) in _proxyable_classes:
            # The object was made before the trace.
            return self._read(self._keep(a, f"_{a.__class__.__name__}_constant_"))
        return super().create_arg(a)

    @staticmethod
    def _name_in(members: Any, value: Any) -> str | None:
        return next((name for name, member in members if member is value), None)

    def _read(self, name: str) -> Any:
        return self.create_node("get_attr", name, (), {})

    def _keep(self, value: Any, prefix: str) -> str:
        name = self.get_fresh_qualname(prefix)
        setattr(self.root, name, value)
        return name

    @compatibility(is_backward_compatible=True)
    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        """Return whether a module is called in the graph, and not traced into: by default, those of `torch.nn`.

        Args:
            m: The module.
            module_qualified_name: Its path from the root.
        """
        return _is_of_nn(m.__module__) and not isinstance(m, torch.nn.Sequential)

    @compatibility(is_backward_compatible=True)
    def path_of_module(self, mod: torch.nn.Module) -> str:
        """Return the path of a module from the root.

        Raises:
            NameError: The root does not have it.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
        else:
            path = self._name_in(self.root.named_modules(), mod)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    @compatibility(is_backward_compatible=True)
    def call_module(
        self, m: torch.nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the result of a call of a module: a proxy for a leaf, and else what `forward` returns.

        Args:
            m: The module.
            forward: The function that runs it.
            args: Positional arguments.
            kwargs: Keyword arguments.
        """
        name = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(name, type(m))):
            calls = self.num_calls.get(name, 0)
            self.num_calls[name] = calls + 1
            key = f"{name}@{calls}" if calls else name
            self.module_stack[key] = (name, type(m))
            if self.is_leaf_module(m, name):
                result = self.create_proxy("call_module", name, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            last, _ = self.module_stack.popitem(last=True)
            if last != key:
                raise AssertionError(f"Unexpected key {last}, expected {key}")
        return result

    @compatibility(is_backward_compatible=False)
    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return what a read of an attribute of a module gets: a proxy for a parameter, and else the value.

        Args:
            attr: The name of the attribute.
            attr_val: Its value.
            parameter_proxy_cache: The proxies of earlier reads, by path.
        """
        if isinstance(attr_val, torch.nn.Parameter):
            members = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, torch.Tensor):
            members = self.root.named_buffers()
        else:
            return attr_val
        name = self._name_in(members, attr_val)
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            options: dict[str, Any] = {}
            # Tracers of others override `create_proxy`, and may not have the argument.
            if "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters and self.param_shapes_constant:
                options["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, attr_val)
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
        return parameter_proxy_cache[name]

    @compatibility(is_backward_compatible=False)
    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Insert the placeholders of a function.

        Args:
            root_fn: The function.
            is_module: Whether its first parameter is the root.
            concrete_args: Values of parameters, by name or by position.

        Returns:
            The function to call, and its arguments.
        """
        inner = inspect.unwrap(root_fn)
        code = inner.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = []
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            args.append(self.root)
        first = len(args)
        signature = inspect.signature(inner)
        is_variadic = code.co_flags & HAS_VARSTUFF
        if isinstance(concrete_args, tuple) and concrete_args and is_variadic and total == 1:
            for i, value in enumerate(concrete_args):
                made = self.create_proxy("placeholder", f"input_{i}", (), {})
                if isinstance(value, PHBase) and value is not PH:
                    _transfer_attrs(fr=value, to=made.node)
                args.append(made)
            return root_fn, args
        wanted = names[first:total]
        if isinstance(concrete_args, tuple):
            if len(wanted) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(wanted)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(wanted, concrete_args))
        args.extend(self._proxy_placeholder(name, concrete_args, signature, inner) for name in wanted)
        if code.co_kwonlyargcount > 0 or is_variadic:
            rest = iter(names[total:])
            if code.co_flags & inspect.CO_VARARGS:
                args.append(self._proxy_placeholder("*" + next(rest), concrete_args, signature, inner))
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(self._proxy_placeholder("**" + next(rest), concrete_args, signature, inner))
            root_fn = _patch_function(root_fn, len(args))  # type: ignore[arg-type]
        leaves, spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        # Parameters are trees: the placeholders are their leaves.
        codegen = _PyTreeCodeGen(_PyTreeInfo(names[:total], spec, None))
        self.graph._codegen = codegen
        function = root_fn

        def flatten_fn(*args: Any):  # type: ignore[no-untyped-def]
            result = function(*pytree.tree_unflatten(list(args), spec))
            results, out_spec = pytree.tree_flatten(result)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return results

        return flatten_fn, leaves

    def _proxy_placeholder(
        self,
        name: str,
        concrete_args: dict[str, Any] | None,
        sig: inspect.Signature,
        fn_for_analysis: Callable[..., Any],
    ) -> Any:
        default: tuple[Any, ...] = ()
        if name[0] != "*" and sig.parameters[name].default is not inspect.Parameter.empty:
            default = (sig.parameters[name].default,)
        if concrete_args is None or name not in concrete_args:
            annotation = _annotations(fn_for_analysis).get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)
        count = 0

        def place(value: Any) -> Any:
            nonlocal count
            count += 1
            made = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(value, PHBase):
                if value is not PH:
                    _transfer_attrs(fr=value, to=made.node)
                return made
            self._check_value(made, value, name)
            return value

        return pytree.tree_map(place, concrete_args[name])

    def _check_value(self, proxy: Proxy, value: Any, name: str) -> None:
        """Record an assertion that an argument has the value for which the graph is made."""
        said = f"{name} has been specialized to have value {value} but got another value"
        if type(value) in base_types and type(value) is not torch.Tensor:
            self.create_proxy("call_function", torch._assert, (proxy == value, said), {}, name="_assert")
        elif value is None:
            self.create_proxy("call_function", _assert_is_none, (proxy, said), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to "
                "the user to make sure that your inputs match the inputs you specialized the function with.",
                stacklevel=2,
            )

    @compatibility(is_backward_compatible=True)
    def trace(self, root: torch.nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """Return the graph of a module or function. Afterwards `self.root` is the module that has its attributes.

        Args:
            root: The module or function.
            concrete_args: Values of parameters, which are not traced.
        """
        with _is_fx_tracing_context(True):
            if isinstance(root, _Module):
                self.root = root
                if not hasattr(type(root), self.traced_func_name):
                    raise AssertionError(
                        f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
                    )
                fn = getattr(type(root), self.traced_func_name)
                self.root_module_name = root._get_name()
                self.submodule_paths = {module: name for name, module in root.named_modules()}
            else:
                self.root = _Module()
                fn = root
            self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
            if hasattr(fn, "__code__"):
                code = fn.__code__
                self.graph._co_fields = {
                    "co_name": code.co_name,
                    "co_filename": code.co_filename,
                    "co_firstlineno": code.co_firstlineno,
                }
            self.tensor_attrs = {}
            self._collect_constants(self.root, "")
            if not isinstance(fn, FunctionType):
                raise AssertionError(f"Expected FunctionType, got {type(fn)}")
            space = fn.__globals__
            fn, args = self.create_args_for_root(fn, isinstance(root, _Module), concrete_args)
            annotations = _annotations(inspect.unwrap(fn))
            with self._patched(space):
                result = self.create_arg(fn(*args))
                self.create_node("output", "output", (result,), {}, type_expr=annotations.get("return"))
            self.submodule_paths = None
        return self.graph

    def _collect_constants(self, module: torch.nn.Module, prefix: str) -> None:
        for name, value in module.__dict__.items():
            if isinstance(value, _constant_attribute_types):
                self.tensor_attrs[value] = prefix + name
        for name, child in module.named_children():
            self._collect_constants(child, f"{prefix}{name}.")

    @contextlib.contextmanager
    def _patched(self, space: dict[str, Any]) -> Iterator[None]:
        """Context in which calls and attributes of modules, and wrapped functions, come to this tracer."""
        proxies: dict[str, Proxy] = {}

        @functools.wraps(_orig_module_getattr)
        def read(module: torch.nn.Module, name: str) -> Any:
            return self.getattr(name, _orig_module_getattr(module, name), proxies)

        @functools.wraps(_orig_module_call)
        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return _orig_module_call(module, *args, **kwargs)

            of_forward = getattr(getattr(module, "forward", module), "__globals__", {})
            _autowrap_check(patcher, of_forward, self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        with _new_patcher() as patcher:
            # A trace within a trace replaces them again.
            patcher.patch_method(_Module, "__getattr__", read, deduplicate=False)
            patcher.patch_method(_Module, "__call__", call, deduplicate=False)
            _patch_wrapped_functions(patcher)
            for searched in (space, *(vars(module) for module in self._autowrap_search)):
                _autowrap_check(patcher, searched, self._autowrap_function_ids)
            yield

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        made = Tracer.__new__(Tracer)
        for key, value in self.__dict__.items():
            # Modules of Python cannot be copied.
            made.__dict__[key] = copy.copy(value) if key == "_autowrap_search" else copy.deepcopy(value, memo)
        return made


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function. Those of this package are texts, and the types are returned for them."""
    if (function.__module__ or "").partition(".")[0] in ("torch", "pytpu"):
        try:
            return typing.get_type_hints(function)
        except (NameError, TypeError):
            return {}
    return inspect.get_annotations(function)


def _is_of_nn(module: str) -> bool:
    root, _, rest = module.partition(".")
    return root in ("torch", "pytpu") and (rest.startswith("nn") or rest.startswith("ao.nn"))


# ---- functions that are not traced into

# The names of functions, and the globals that have them, by the identity of the globals and the name.
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
# Classes and names of methods.
_wrapped_methods_to_patch: list[tuple[type, str]] = []
if os.environ.get("FX_PATCH_GETITEM") == "1":
    _wrapped_methods_to_patch.append((torch.Tensor, "__getitem__"))


def _find_proxy(*objects_to_search: object) -> Proxy | None:
    found: list[Proxy] = []

    def see(value: Any) -> None:
        if isinstance(value, Proxy):
            found.append(value)

    map_aggregate(objects_to_search, see)
    return found[-1] if found else None


def _create_wrapped_func(orig_fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def _create_wrapped_method(cls: type, name: str) -> Callable[..., Any]:
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


class _Patch:
    """One replaced entry of a dictionary, or attribute of a class."""

    def __init__(self, owner: Any, name: str, new: Any) -> None:
        self.owner, self.name, self.new = owner, name, new
        self.is_class = isinstance(owner, type)
        self.old = getattr(owner, name) if self.is_class else owner.get(name)
        self.was_there = self.is_class or name in owner

    def apply(self) -> None:
        """Replace it."""
        if self.is_class:
            setattr(self.owner, self.name, self.new)
        else:
            self.owner[self.name] = self.new

    def revert(self) -> None:
        """Restore what was there."""
        if self.is_class:
            setattr(self.owner, self.name, self.old)
        elif self.was_there:
            self.owner[self.name] = self.old
        else:
            # A builtin, which the globals did not hide.
            del self.owner[self.name]


class _Patcher:
    """Replacements that are undone together."""

    def __init__(self) -> None:
        self.patches_made: list[_Patch] = []
        self.visited: set[int] = set()

    def _patch(self, owner: Any, name: str, old: Any, new: Any, deduplicate: bool) -> None:
        new.__fx_already_patched = deduplicate
        if not getattr(old, "__fx_already_patched", False):
            self.patches_made.append(_Patch(owner, name, new))
            self.patches_made[-1].apply()

    def patch(
        self, frame_dict: dict[str, Any], name: str, new_fn: Callable[..., Any], deduplicate: bool = True
    ) -> None:
        """Replace an entry of globals, unless it is a replacement already."""
        old = None if name not in frame_dict and hasattr(builtins, name) else frame_dict[name]
        self._patch(frame_dict, name, old, new_fn, deduplicate)

    def patch_method(self, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True) -> None:
        """Replace a method of a class, unless it is a replacement already."""
        self._patch(cls, name, getattr(cls, name), new_fn, deduplicate)

    def visit_once(self, thing: Any) -> bool:
        """Return whether this is the first call for a thing."""
        is_new = id(thing) not in self.visited
        self.visited.add(id(thing))
        return is_new

    def revert_all_patches(self) -> list[_Patch]:
        """Undo the replacements for now."""
        for patch in reversed(self.patches_made):
            patch.revert()
        return self.patches_made

    def reapply_all_patches(self) -> list[_Patch]:
        """Do the replacements again."""
        for patch in self.patches_made:
            patch.apply()
        return self.patches_made

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *error: object) -> None:
        self.revert_all_patches()
        self.patches_made.clear()
        self.visited.clear()


CURRENT_PATCHER: _Patcher | None = None


@contextlib.contextmanager
def _new_patcher() -> Iterator[_Patcher]:
    global CURRENT_PATCHER
    before = CURRENT_PATCHER
    with _Patcher() as patcher:
        CURRENT_PATCHER = patcher
        try:
            yield patcher
        finally:
            CURRENT_PATCHER = before


@contextlib.contextmanager
def _maybe_revert_all_patches() -> Iterator[None]:
    """Context in which no function is replaced by the trace that is made."""
    patcher = CURRENT_PATCHER
    if patcher is not None:
        patcher.revert_all_patches()
    try:
        yield
    finally:
        if patcher is not None:
            patcher.reapply_all_patches()


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    for (_, name), space in list(_wrapped_fns_to_patch.items()):
        # The module may have dropped the name since.
        original = space.get(name, getattr(builtins, name, None))
        if original is not None:
            patcher.patch(space, name, _create_wrapped_func(original))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if not name.startswith("_") and callable(value) and id(value) in function_ids:
                patcher.patch(frame_dict, name, _create_wrapped_func(value))


@compatibility(is_backward_compatible=True)
def wrap(fn_or_name: Any) -> Any:
    """Keep a function from being traced into: its calls with proxies become nodes.

    Call it at the top of a module, with the function or the name of a global one, or use it as a decorator there.

    Returns:
        The argument.

    Raises:
        NotImplementedError: It is called within a function.
        RuntimeError: The argument is neither a function nor a name.

    Example:
        >>> import pytpu as torch
        >>> @torch.fx.wrap
        ... def scaled(x, k):
        ...     return x * k if k > 1 else x
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[(id(caller.f_globals), name)] = caller.f_globals
    return fn_or_name


@compatibility(is_backward_compatible=True)
def symbolic_trace(
    root: torch.nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Return a module that runs the operations of a module or function.

    The program runs once, with proxies for its arguments. Conditions on their values, and loops over them, cannot be
    recorded and raise `TraceError`.

    Args:
        root: The module or function.
        concrete_args: Values of parameters, by name. The graph then holds for them only. `torch.fx.PH` in a tree
            stands for a value that stays a parameter.

    Example:
        >>> import pytpu as torch
        >>> module = torch.fx.symbolic_trace(lambda x, y: (x + y).relu())
        >>> module(torch.tensor([-1.0]), torch.tensor([3.0]))
        tensor([2.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, _Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


@wrap
def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)
