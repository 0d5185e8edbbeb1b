"""`torch.fx.node`: one operation of a graph, and maps over the arguments of operations."""

from __future__ import annotations

import builtins
import inspect
import operator
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, Union, get_args

import pytpu as torch

from ._compatibility import compatibility
from .immutable_collections import immutable_dict, immutable_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .graph import Graph
    from .operator_schemas import ArgsKwargsPair

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

BaseArgumentTypes = Union[  # noqa: UP007
    str,
    int,
    float,
    bool,
    complex,
    torch.dtype,
    torch.Tensor,
    torch.device,
    torch.memory_format,
    torch.layout,
    torch._ops.OpOverload,
    torch.SymInt,
    torch.SymBool,
    torch.SymFloat,
]
base_types = get_args(BaseArgumentTypes)
Target: TypeAlias = Callable[..., Any] | str
Argument: TypeAlias = Any

_legal_ops = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"])

# Functions whose calls stay in a graph though nothing uses their results.
_side_effectful_functions: set[Callable[..., Any]] = {
    torch._assert,
    torch._assert_async,
    torch._C._set_grad_enabled,
    torch.amp._enter_autocast,
    torch.amp._exit_autocast,
    operator.setitem,
    torch.ops.profiler._record_function_enter,
    torch.ops.profiler._record_function_enter_new,
    torch.ops.profiler._record_function_exit,
}

# Functions that advance the random generator, by the modules that have them.
_RANDOM = {
    torch: "rand randn randint randperm rand_like randn_like randint_like normal poisson bernoulli multinomial".split(),
}
_random_functions = {getattr(owner, name) for owner, names in _RANDOM.items() for name in names}


@compatibility(is_backward_compatible=False)
def has_side_effect(fn: Any) -> Any:
    """Keep calls of `fn` in graphs when dead code is eliminated. Return `fn`."""
    _side_effectful_functions.add(fn)
    return fn


def _is_impure_function(target: Any, impure_random: bool) -> bool:
    if target in _side_effectful_functions or target in _random_functions:
        return True
    ops = torch._ops
    if isinstance(target, (ops.OpOverload, ops.OpOverloadPacket)):
        packet: Any = getattr(target, "overloadpacket", target)
        if packet in _side_effectful_functions:
            return True
        space, _, name = packet._qualified_op_name.partition("::")
        if space == "aten":
            # aten names the ops that write to an operand with a trailing underscore.
            changes = name.endswith("_") and not name.endswith("__")
            return changes or (impure_random and getattr(torch, name, None) in _random_functions)
        written = packet._schemas[0] if packet._schemas else ""
        made = torch.library._REGISTRY.get(packet._qualified_op_name)
        return "!" in written or (made is not None and bool(made.schema.mutates))
    return False


def _find_module_of_method(orig_method: Callable[..., Any]) -> str:
    module = orig_method.__module__
    if module is not None:
        return module
    name = orig_method.__name__
    for guess in (torch, torch.nn.functional):
        if getattr(guess, name, None) is orig_method:
            return guess.__name__
    raise RuntimeError(f"cannot find module for {orig_method}")


def _as_torch_name(name: str) -> str:
    """Return the name under PyTorch's root, whichever root the package has."""
    return "torch" + name[5:] if name == "pytpu" or name.startswith("pytpu.") else name


def _type_repr(obj: object) -> str:
    """Return the text of a type: a dotted name for a class, without the module for builtins."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return f"{_as_torch_name(obj.__module__)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj)


def _get_qualified_name(func: Callable[..., Any]) -> str:
    """Return the dotted name under which code can read a function."""
    name = func.__name__
    if getattr(builtins, name, None) is func:
        return name
    if getattr(func, "__qualname__", None) == f"Tensor.{name}" or (
        isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType))
        and func is getattr(torch.Tensor, name, None)
    ):
        return f"torch.Tensor.{name}"
    if name == "<lambda>":
        try:
            name = inspect.getsource(func).split("=")[0].strip()
        except Exception as error:
            raise RuntimeError("Unable to represent lambda") from error
    module = _as_torch_name(_find_module_of_method(func)).replace("torch._ops", "torch.ops")
    return f"{module}.{name}"


def _format_arg(arg: object, max_list_len: float = float("inf")) -> str:
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        items = ", ".join(_format_arg(item) for i, item in enumerate(arg) if i < max_list_len)
        rest = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
        if isinstance(arg, list):
            return f"[{items}{rest}]"
        return f"({items}{',' if len(arg) == 1 else ''}{rest})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(value)}" for key, value in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def _dtype_abbreviation(dtype: torch.dtype) -> str:
    from ..utils._dtype_abbrs import dtype_abbrs

    return dtype_abbrs.get(dtype, str(dtype))


def _sizes(values: Iterable[Any]) -> str:
    return f"[{', '.join(str(value) for value in values)}]"


# Attributes whose change other tables follow.
_WATCHED = frozenset(("name", "op", "target"))


@compatibility(is_backward_compatible=True)
class Node:
    """One value of a graph: the kind of operation, what it calls, and its arguments.

    `op` is one of these:

    * `placeholder`: a parameter of the function. `target` is its name, `args` is empty or has its default.
    * `get_attr`: an attribute of the module hierarchy. `target` is its dotted path.
    * `call_function`: a call of the function `target`.
    * `call_module`: a call of the module at the path `target`, without `self` in `args`.
    * `call_method`: a call of the method named `target` of `args[0]`.
    * `output`: the return of `args[0]`.

    Args:
        graph: The graph that the node belongs to. `Graph.create_node` also inserts it.
        name: The name of the value, which no other node of the graph has.
        op: The kind.
        target: A function, or a text for the other kinds.
        args: Positional arguments. Lists and dictionaries in them become immutable ones.
        kwargs: Keyword arguments.
        return_type: The annotation of the value.
    """

    graph: Graph
    name: str
    op: str
    target: Target
    type: Any
    #: The nodes that use this one, as the keys of a dictionary.
    users: dict[Node, None]
    #: Notes of passes. Copies of the node have them too.
    meta: dict[str, Any]

    @compatibility(is_backward_compatible=True)
    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        if op == "call_function":
            if not callable(target):
                self._refuse_target(graph, name, target, "a Callable")
        else:
            if op not in _legal_ops:
                raise AssertionError(f"op '{op}' is not in _legal_ops")
            if not isinstance(target, str):
                self._refuse_target(graph, name, target, "a str")
        self.__dict__.update(
            graph=graph,
            name=name,
            op=op,
            target=target,
            type=return_type,
            users={},
            meta={},
            _args=(),
            _kwargs=immutable_dict(),
            _input_nodes={},
            _prev=self,
            _next=self,
            _erased=False,
            _sort_key=(),
            _repr_fn=None,
        )
        self._update_args_kwargs(args, kwargs)

    @staticmethod
    def _refuse_target(graph: Graph, name: str, target: Any, expected: str) -> None:
        raise ValueError(
            f"Node [graph = {graph}, name = '{name}'] target {target} has type {torch.typename(target)} but "
            f"{expected} is expected"
        )

    if TYPE_CHECKING:
        _args: tuple[Argument, ...]
        _kwargs: dict[str, Argument]
        _input_nodes: dict[Node, None]
        _prev: Node
        _next: Node
        _erased: bool
        _sort_key: tuple[int, ...]
        _repr_fn: Callable[[Node], str] | None

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _WATCHED:
            object.__setattr__(self, name, value)
            return
        if name == "name":
            for hook in self._hooks("_replace_hooks"):
                for user in self.users:
                    hook(old=self, new=value, user=user)
            object.__setattr__(self, name, value)
            return
        table = self.graph._find_nodes_lookup_table
        is_listed = self in table
        if is_listed:
            table.remove(self)
        object.__setattr__(self, name, value)
        if is_listed:
            table.insert(self)

    def _hooks(self, kind: str) -> Sequence[Callable[..., Any]]:
        return getattr(self.graph.owning_module, kind, None) or ()

    # Order in the graph

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self is other or self._sort_key < other._sort_key

    def __ge__(self, other: Node) -> bool:
        return self is other or self._sort_key > other._sort_key

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    @compatibility(is_backward_compatible=True)
    def prepend(self, x: Node) -> None:
        """Move the node `x` of the same graph before this one."""
        self._prepend(x)

    @compatibility(is_backward_compatible=True)
    def append(self, x: Node) -> None:
        """Move the node `x` of the same graph after this one."""
        self._next._prepend(x)

    def _prepend(self, x: Node) -> None:
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x
        x._sort_key = _key_between(before._sort_key, self._sort_key)

    def _remove_from_list(self) -> None:
        # The node keeps its own links: an iteration that stands here goes on along them.
        self._prev._next, self._next._prev = self._next, self._prev

    # Arguments

    def _update_args_kwargs(self, args: Any, kwargs: Any) -> None:
        for used in self._input_nodes:
            used.users.pop(self, None)
        found: dict[Node, None] = {}
        self._input_nodes = found

        def see(node: Node) -> Node:
            found[node] = None
            node.users[self] = None
            return node

        self._args = _map_arg(tuple(args), see)
        self._kwargs = _map_arg(kwargs, see)

    @property
    def args(self) -> tuple[Argument, ...]:
        """Positional arguments. Assigning new ones updates the users of all nodes in them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._update_args_kwargs(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Keyword arguments. Assigning new ones updates the users of all nodes in them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._update_args_kwargs(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes in `args` and `kwargs`, each once, in order."""
        return list(self._input_nodes)

    @compatibility(is_backward_compatible=True)
    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace `args[idx]`."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    @compatibility(is_backward_compatible=True)
    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before `args[idx]`."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError(f"insert_args index must be between 0 and len(self.args), got {idx}")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    @compatibility(is_backward_compatible=True)
    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set one keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    @compatibility(is_backward_compatible=True)
    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let the users of this node use another one.

        Args:
            replace_with: The other node.
            delete_user_cb: A function that says whether a user changes. Without it all do.
            propagate_meta: Copy `meta` to the other node, which must have none.

        Returns:
            The users that changed.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already "
                    "has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    @compatibility(is_backward_compatible=True)
    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace one node in the arguments by another one."""
        for hook in self._hooks("_replace_hooks"):
            hook(old=old_input, new=new_input.name, user=self)
        self._replace_input_with(old_input, new_input)

    def _replace_input_with(self, old_input: Node, new_input: Node) -> None:
        def replace(node: Node) -> Node:
            return new_input if node is old_input else node

        self._update_args_kwargs(_map_arg(self._args, replace), _map_arg(self._kwargs, replace))

    # Notes

    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that made the node, with the innermost last, if the tracer records them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    @compatibility(is_backward_compatible=False)
    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node must stay in the graph though nothing uses it.

        Args:
            impure_random: Count operators of `torch.ops` that draw random numbers as impure.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return getattr(owner.get_submodule(str(self.target)), "_is_impure", False)
        return self.op == "call_function" and _is_impure_function(self.target, impure_random)

    @compatibility(is_backward_compatible=False)
    def normalized_arguments(
        self,
        root: torch.nn.Module,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """Return the arguments by the parameters of the function or module, with defaults filled in.

        Args:
            root: The module whose hierarchy has the targets of `call_module`.
            arg_types: Types of the positional arguments, to choose between overloads.
            kwarg_types: Types of the keyword arguments.
            normalize_to_only_use_kwargs: Return all arguments by keyword.

        Returns:
            `ArgsKwargsPair(args, kwargs)`, or `None` if the parameters are not known.
        """
        from .operator_schemas import normalize_function, normalize_module

        keywords = {"normalize_to_only_use_kwargs": normalize_to_only_use_kwargs}
        if self.op == "call_function":
            target: Any = self.target
            return normalize_function(target, self.args, self.kwargs, arg_types, kwarg_types, **keywords)
        if self.op == "call_module":
            return normalize_module(root, str(self.target), self.args, self.kwargs, **keywords)
        return None

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            names = self.graph._graph_namespace
            self.name = names.create_name(candidate, None)
            names._rename_object(self, self.name)

    # Texts

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    @staticmethod
    def _pretty_print_target(target: object) -> str:
        """Return a text for a target: `operator.add`, `builtins.getattr`, `torch.relu`."""
        if isinstance(target, str):
            return target
        name, module = getattr(target, "__name__", None), getattr(target, "__module__", None)
        if name is not None and module in ("builtins", "_operator"):
            return f"{module.lstrip('_')}.{name}"
        return _get_qualified_name(target)  # type: ignore[arg-type]

    @compatibility(is_backward_compatible=True)
    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return one line about the node.

        Args:
            placeholder_names: A list of parameters. A placeholder is added to it, and `None` returned, unless the
                list is empty.
            maybe_return_typename: For the text of a graph: a list of one text, which gets the type of the output.
            include_tensor_metadata: Show dtype, sizes, strides and device of the tensor in `meta`.
        """
        users = f"[num_users={len(self.users)}]"
        annotation = f"{_type_repr(self.type)} " if self.type is not None else ""
        if self.op == "placeholder":
            name = str(self.target)
            # PyTorch's text repeats the name before a type.
            if placeholder_names:
                placeholder_names.append(f"{name}{name}: {_type_repr(self.type)}" if self.type else name)
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"%{self.name} : {annotation if self.type else ''}{users} = placeholder[target={name}]{default}"
        if self.op == "get_attr":
            return f"%{self.name} : {annotation}{users} = get_attr[target={self._pretty_print_target(self.target)}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        if include_tensor_metadata:
            meta = self.meta
            value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
            if isinstance(value, torch.Tensor):
                what = f"{_dtype_abbreviation(value.dtype)}{_sizes(value.shape)}{_sizes(value.stride())}{value.device}"
                annotation = f'Tensor "{what}"'
        return (
            f"%{self.name} : {annotation}{users} = {self.op}[target={self._pretty_print_target(self.target)}]"
            f"(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"
        )


def _key_between(low: tuple[int, ...], high: tuple[int, ...]) -> tuple[int, ...]:
    """Return a key after `low` and before `high`, two neighbours in the order of tuples.

    The first and the last neighbour of a graph is its root, whose key is empty.
    """
    if len(low) > len(high):
        i = len(high)
        return (*low[:i], low[i] + 1)
    if len(low) < len(high):
        i = len(low)
        return (*high[:i], high[i] - 1)
    return (*low, 0)


def _map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    if isinstance(a, tuple):
        mapped = [_map_aggregate(item, fn) for item in a]
        return type(a)(*mapped) if hasattr(a, "_fields") else tuple(mapped)
    if isinstance(a, list):
        return immutable_list([_map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict([(key, _map_aggregate(value, fn)) for key, value in a.items()])
    if isinstance(a, slice):
        return slice(_map_aggregate(a.start, fn), _map_aggregate(a.stop, fn), _map_aggregate(a.step, fn))
    return fn(a)


def _map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    return _map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


@compatibility(is_backward_compatible=True)
def map_arg(a: Any, fn: Callable[[Node], Argument]) -> Any:
    """Apply a function to each node in tuples, lists, dictionaries and slices.

    Returns:
        The same form. Lists and dictionaries are immutable.
    """
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return _map_arg(a, fn)


@compatibility(is_backward_compatible=True)
def map_aggregate(a: Any, fn: Callable[[Argument], Argument]) -> Any:
    """Apply a function to each value in tuples, lists, dictionaries and slices.

    Returns:
        The same form. Lists and dictionaries are immutable.
    """
    return _map_aggregate(a, fn)
