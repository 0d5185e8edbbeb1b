"""``torch.fx.graph``: a list of nodes, and the Python code that computes them."""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pytpu as torch

from ._codegen import (
    CodeGen,
    PythonCode,
    TransformCodeFunc,
    _BoxedCodeGen as _BoxedCodeGen,
    _override_sym_repr as _override_sym_repr,
    _PyTreeCodeGen as _PyTreeCodeGen,
    _PyTreeInfo as _PyTreeInfo,
)
from ._compatibility import compatibility
from ._names import (
    _custom_builtins as _custom_builtins,
    _CustomBuiltin as _CustomBuiltin,
    _illegal_char_regex as _illegal_char_regex,
    _illegal_names as _illegal_names,
    _is_from_torch as _is_from_torch,
    _is_magic,
    _name_regex as _name_regex,
    _Namespace,
    _register_custom_builtin as _register_custom_builtin,
    _snake_case,
)
from ._writer import (
    _color_codes as _color_codes,
    _color_fns as _color_fns,
    _counter_regexp as _counter_regexp,
    _format_target as _format_target,
    _identity as _identity,
    _legal_ops,
    _make_color_fn as _make_color_fn,
    _origin_type_map as _origin_type_map,
    _parse_stack_trace as _parse_stack_trace,
    _ParsedStackTrace as _ParsedStackTrace,
    inplace_methods as inplace_methods,
    magic_methods as magic_methods,
    reflectable_magic_methods as reflectable_magic_methods,
)
from .immutable_collections import immutable_dict
from .node import Argument, Node, Target, map_arg
from .tensor_type import TensorType as TensorType

if TYPE_CHECKING:
    from ._symbolic_trace import Tracer
    from .graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

log = logging.getLogger(__name__)

# PyTorch defines them here, so pickles name them here.
for _class in (CodeGen, PythonCode, _BoxedCodeGen, _CustomBuiltin, _Namespace, _PyTreeCodeGen, _PyTreeInfo):
    _class.__module__ = __name__


class _InsertPoint:
    """The place of new nodes. Leaving a ``with`` block restores the place before."""

    def __init__(self, graph: Graph, new_insert: Callable[[Node], None]) -> None:
        self.graph, self.orig_insert = graph, graph._insert
        graph._insert = new_insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.orig_insert


class _node_list:
    """The nodes of a graph in order. Nodes can be inserted and erased while a loop runs over them."""

    def __init__(self, graph: Graph, direction: Literal["_prev", "_next"] = "_next") -> None:
        if direction not in ("_next", "_prev"):
            raise AssertionError(f"direction must be '_next' or '_prev', got {direction}")
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def _walk(self, direction: str) -> Iterator[Any]:
        root = self.graph._root
        node = getattr(root, direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, direction)

    def __iter__(self) -> Iterator[Any]:
        return self._walk(self.direction)

    def __reversed__(self) -> Iterator[Any]:
        return self._walk("_next" if self.direction == "_prev" else "_prev")


class _FindNodesLookupTable:
    """The nodes of a graph by kind, and functions by target."""

    def __init__(self) -> None:
        self.table: dict[tuple[str, Any], dict[Node, None]] = defaultdict(dict)

    def _key(self, node: Node) -> tuple[str, Any]:
        return node.op, node.target if node.op == "call_function" else None

    def __contains__(self, node: Node) -> bool:
        return node in self.table.get(self._key(node), ())

    def insert(self, node: Node) -> None:
        self.table[self._key(node)][node] = None

    def remove(self, node: Node) -> None:
        self.table[self._key(node)].pop(node)

    def find_nodes(self, *, op: str, target: Target | None = None) -> list[Any]:
        if op == "call_function":
            if target is None:
                raise AssertionError("target must not be None for call_function op")
            return list(self.table[(op, target)])
        return [node for node in self.table[(op, None)] if target is None or node.target == target]


@compatibility(is_backward_compatible=True)
class Graph:
    """A list of nodes that describes a function of Python.

    Args:
        owning_module: The module whose attributes the nodes name.
        tracer_cls: The class of the tracer that made the graph.
        tracer_extras: Further arguments of that tracer's ``trace``.

    Example:
        >>> import pytpu as torch
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> end = graph.output(graph.call_function(torch.relu, (x,)))
        >>> print(torch.fx.GraphModule({}, graph).code.strip())
        def forward(self, x):
            relu = torch.relu(x);  x = None
            return relu
    """

    @compatibility(is_backward_compatible=True)
    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._find_nodes_lookup_table = _FindNodesLookupTable()
        # Before the first and after the last node of the ring.
        self._root: Node = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module: Any = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> GraphModule | None:
        """The module whose attributes the nodes name."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: torch.nn.Module | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order. Nodes can be inserted and erased while a loop runs over them."""
        return _node_list(self)

    @compatibility(is_backward_compatible=False)
    def output_node(self) -> Node:
        """Return the last node, which must be the output."""
        node = self._root._prev
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op}")
        return node

    @compatibility(is_backward_compatible=False)
    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Any]:
        """Return the nodes of a kind without a walk over the graph.

        Args:
            op: The kind.
            target: The target, which ``call_function`` needs.
            sort: Return them in the order of the graph.
        """
        found = self._find_nodes_lookup_table.find_nodes(op=op, target=target)
        return sorted(found) if sort else found

    def _hooks(self, kind: str) -> Sequence[Callable[[Node], Any]]:
        return getattr(self.owning_module, kind, None) or ()

    # New nodes

    @compatibility(is_backward_compatible=True)
    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Insert a node at the place of new nodes, which is the end of the graph at first.

        Args:
            op: The kind: see ``Node``.
            target: A function, or a text for the other kinds.
            args: Positional arguments.
            kwargs: Keyword arguments.
            name: The wish for the name of the value.
            type_expr: The annotation of the value.
        """
        if args and not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if kwargs and not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        name = self._graph_namespace.create_name(self._target_to_str(target) if name is None else name, None)
        node = Node(self, name, op, target, args or (), kwargs or immutable_dict(), type_expr)
        for hook in self._hooks("_create_node_hooks"):
            hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._find_nodes_lookup_table.insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Target | None) -> str:
        if callable(target):
            name = target.__name__
        else:
            if not isinstance(target, str):
                raise AssertionError(f"Expected target to be str, got {type(target)}")
            name = target[2:-2] if _is_magic(target) else target
        return _snake_case(name)

    @compatibility(is_backward_compatible=True)
    def placeholder(
        self, name: str, type_expr: Any | None = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """Insert a parameter of the function, with its annotation and its default."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Insert an attribute of the module hierarchy. Warn if the owning module does not have it."""
        if self.owning_module is not None and not _has_member(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Insert a call of the module at a path. Warn if the owning module does not have it."""
        if self.owning_module is not None and self.owning_module.get_submodule(module_name) is None:
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Insert a call of a method of ``args[0]``."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Insert a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Insert the return of a value."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def _query(self, node: Node, op: Any, args: tuple[Any, ...], method: str) -> Node:
        made = self.call_function(op, (node, *args))
        for key in ("val", "example_value"):
            if node.meta.get(key) is not None:
                made.meta[key] = getattr(node.meta[key], method)(*args)
                break
        return made

    @compatibility(is_backward_compatible=False)
    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """Insert the size of a tensor along ``dim``."""
        return self._query(tensor_node, torch.ops.aten.sym_size.int, (dim,), "size")

    @compatibility(is_backward_compatible=False)
    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        """Insert the stride of a tensor along ``dim``."""
        return self._query(tensor_node, torch.ops.aten.sym_stride.int, (dim,), "stride")

    @compatibility(is_backward_compatible=False)
    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        """Insert the offset of a tensor in its storage."""
        return self._query(tensor_node, torch.ops.aten.sym_storage_offset.default, (), "storage_offset")

    # Places

    @compatibility(is_backward_compatible=True)
    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes before ``n``, or at the start of the graph: from now on, or in a ``with`` block."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    @compatibility(is_backward_compatible=True)
    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes after ``n``, or at the end of the graph: from now on, or in a ``with`` block."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    # Copies

    @compatibility(is_backward_compatible=True)
    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Copy a node of another graph into this one.

        Args:
            node: The node.
            arg_transform: A function from the nodes in its arguments to values of this graph.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        if not isinstance(args, tuple):
            raise AssertionError(f"Expected args to be tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"Expected kwargs to be dict, got {type(kwargs)}")
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    @compatibility(is_backward_compatible=True)
    def graph_copy(self, g: Graph, val_map: dict[Any, Any], return_output_node: bool = False) -> Any:
        """Copy the nodes of another graph into this one, without its output.

        Args:
            g: The other graph.
            val_map: A dictionary from nodes of ``g`` to values of this graph. Nodes in it are not copied, and copied
                nodes are added.
            return_output_node: Return the output node of ``g`` too.

        Returns:
            The value of this graph that ``g`` returns, or ``None``.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[Any, Any] | None = None) -> Graph:
        # Nodes are copied one by one: a copy along their links would be as deep as the graph is long.
        memo = memo or {}
        made = Graph(tracer_cls=self._tracer_cls)
        copied = made.graph_copy(self, memo, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        if copied is not None:
            value, old = copied
            made.output(value, type_expr=getattr(old, "type", None)).meta = copy.copy(old.meta)
        return made

    # Changes

    @compatibility(is_backward_compatible=True)
    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that has no users.

        Raises:
            RuntimeError: It has users, or belongs to another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in self._hooks("_erase_node_hooks"):
            hook(to_erase)
        self._find_nodes_lookup_table.remove(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs(map_arg(to_erase._args, lambda n: None), map_arg(to_erase._kwargs, lambda n: None))

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    @compatibility(is_backward_compatible=True)
    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove all nodes whose values do not reach the output.

        Args:
            is_impure_node: A function that says which nodes stay in any case. Without it ``Node.is_impure`` does.

        Returns:
            Whether the graph changed.
        """
        self.lint()
        stays = is_impure_node or (lambda node: node.is_impure(True))
        removed = []
        for node in reversed(self.nodes):
            if not stays(node) and not node.users:
                self.erase_node(node)
                removed.append(node.name)
        changed = bool(removed)
        if changed:
            log.info("The following nodes were dead code eliminated: %s", removed)
        if self.owning_module is not None:
            from .graph_module import GraphModule

            read = {node.target for node in self.find_nodes(op="get_attr", sort=False)}
            for name, child in self.owning_module.named_children():
                if name in read and isinstance(child, GraphModule):
                    changed |= child.graph.eliminate_dead_code()
                    child.recompile()
        return changed

    @compatibility(is_backward_compatible=True)
    def lint(self) -> None:
        """Check the graph: its nodes belong to it, are defined before they are used, and name what exists.

        Raises:
            RuntimeError: A node does not.
            ValueError: A target has the wrong type.
        """
        names: set[str] = set()
        defined: set[Node] = set()
        for node in self.nodes:
            if node.op not in _legal_ops:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            if node not in self._find_nodes_lookup_table:
                raise RuntimeError(f"Node '{node}' is not added to the side table")
            for used in node._input_nodes:
                said = f"Argument '{used}' of Node '{node}' "
                if used.graph is not self:
                    raise RuntimeError(
                        f"{said}does not belong to this Graph, but was used as an argument! If you are copying nodes "
                        f"from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n{self}"
                    )
                if used not in defined:
                    raise RuntimeError(
                        f"{said}was used before it has been defined! Please check that Nodes in the graph are "
                        f"topologically ordered\n{self}"
                    )
            defined.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                self._lint_target(node, self.owning_module)

    def _lint_target(self, node: Node, owner: Any) -> None:
        is_function = node.op == "call_function"
        if not (callable(node.target) if is_function else isinstance(node.target, str)):
            expected = "a Callable" if is_function else "a str"
            raise ValueError(
                f"Node {node} target {node.target} has type {torch.typename(node.target)} but {expected} is expected"
            )
        if node.op not in ("get_attr", "call_module"):
            return
        atoms = str(node.target).split(".")
        for i, atom in enumerate(atoms):
            said = f"Node {node} target {node.target} "
            path = ".".join(atoms[:i])
            owner = getattr(owner, atom, None)
            if owner is None:
                raise RuntimeError(f"{said}references nonexistent attribute {atom} of {path}")
            if node.op == "call_module" and not isinstance(owner, torch.nn.Module):
                raise RuntimeError(f"{said}{atom} of {path} does not reference an nn.Module")

    # Code

    @compatibility(is_backward_compatible=False)
    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders for the arguments of the function."""
        return self._codegen.process_inputs(*args)

    @compatibility(is_backward_compatible=False)
    def process_outputs(self, out: Any) -> Any:
        """Return the result of the function for the value of the output node."""
        return self._codegen.process_outputs(out)

    @compatibility(is_backward_compatible=False)
    def set_codegen(self, codegen: CodeGen) -> None:
        """Change the way in which the graph becomes a function."""
        self._codegen = codegen

    @compatibility(is_backward_compatible=True)
    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """Return the graph as a function of Python.

        Args:
            root_module: The name of the module whose attributes the nodes name, usually ``self``.
            verbose: Write dtypes, sizes, and the lines of the program that the nodes are from.
            include_stride: Write strides too.
            include_device: Write devices too.
            colored: Color the text for terminals.
            expanded_def: Write each parameter on its own line.
            record_func: Record each call with the profiler.
            additional_meta: Keys of ``Node.meta`` to write.
        """
        # Names of values and of global objects must differ, so this code has a namespace of its own. Tuples of nodes
        # are written by `repr`, so the names are given to the nodes while the code is written.
        namespace = _Namespace()
        nodes = list(self.nodes)
        before = [node._repr_fn for node in nodes]
        for node in nodes:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._python_code(
                root_module,
                namespace,
                verbose=verbose,
                include_stride=include_stride,
                include_device=include_device,
                colored=colored,
                expanded_def=expanded_def,
                record_func=record_func,
                additional_meta=additional_meta,
            )
        finally:
            for node, function in zip(nodes, before):
                node._repr_fn = function

    def _python_code(self, root_module: str, namespace: _Namespace, **options: Any) -> PythonCode:
        return self._codegen._gen_python_code(self.nodes, root_module, namespace, **options)

    @compatibility(is_backward_compatible=False)
    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Let a function change the lines of the code, from now on or in a ``with`` block.

        Args:
            make_transformer: A function from the one that is set, or ``None``, to the one to set. That one gets a
                list of texts and returns another one.
        """
        codegen, before = self._codegen, self._codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def restoring() -> Generator[None, None, None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return restoring()

    # Texts

    def __str__(self) -> str:
        """Return a text with one node a line."""
        lines = [node.format_node() for node in self.nodes]
        return "\n    ".join(["graph():", *(line for line in lines if line)])

    @compatibility(is_backward_compatible=True)
    def print_tabular(self) -> None:
        """Print the nodes as a table, with the package ``tabulate``."""
        try:
            from tabulate import tabulate
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. Run `pip "
                "install tabulate` to install the library."
            )
            raise
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))


def _has_member(module: torch.nn.Module, qualified_name: str) -> bool:
    """Return whether a path leads to a module, parameter or buffer."""
    path, _, name = qualified_name.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError:
        warnings.warn(f"Failed to fetch module {path}!", stacklevel=3)
        return False
    found = getattr(owner, name, None)
    return isinstance(found, (torch.nn.Module, torch.nn.Parameter)) or (found is not None and name in owner._buffers)
