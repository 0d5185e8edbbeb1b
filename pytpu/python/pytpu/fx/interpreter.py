"""`torch.fx.interpreter`: run a graph node by node, or make another graph on the way."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Iterator
from typing import Any

import pytpu as torch

from . import traceback as fx_traceback
from ._compatibility import compatibility
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, Target, map_aggregate, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]

log = logging.getLogger(__name__)


@compatibility(is_backward_compatible=True)
class Interpreter:
    """A loop over the nodes of a graph. Subclasses override how a kind of node is run.

    `run` calls `run_node` for each node, and that calls `placeholder`, `get_attr`, `call_function`,
    `call_method`, `call_module` or `output`.

    Args:
        module: The module that has the attributes, and the graph.
        garbage_collect_values: Forget each value after its last use. `env` then has none of them at the end.
        graph: Another graph than that of the module.

    Example:
        >>> import pytpu as torch
        >>> class Negated(torch.fx.Interpreter):
        ...     def call_method(self, target, args, kwargs):
        ...         return -super().call_method(target, args, kwargs)
        >>> Negated(torch.fx.symbolic_trace(lambda x: x.relu())).run(torch.ones(1))
        tensor([-1.])
    """

    @compatibility(is_backward_compatible=True)
    def __init__(
        self, module: torch.nn.Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module: Any = module
        self.submodules = dict(module.named_modules())
        own: Any = module
        self.graph: Graph = own.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        if garbage_collect_values:
            self.user_to_last_uses: dict[Node, list[Node]] = {}
            seen = set()
            for user in reversed(self.graph.nodes):
                for used in user._input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.user_to_last_uses.setdefault(user, []).append(used)

    @compatibility(is_backward_compatible=True)
    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Run the graph, and return its result.

        Args:
            *args: The arguments, by position.
            initial_env: Values of nodes, which are not run.
            enable_io_processing: Take the arguments apart, and build the result, as the generated code does.
        """
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    self._explain(error, node)
                    if isinstance(error, KeyError):
                        # The text of a `KeyError` is quoted, with its lines in one.
                        raise RuntimeError(*error.args) from error
                raise
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    del self.env[used]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    @staticmethod
    def _explain(error: Exception, node: Node) -> None:
        said = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
        first = f"{error.args[0]}\n\n{said}" if error.args else said
        error.args = (first, *error.args[1:])

    @compatibility(is_backward_compatible=True)
    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph with the arguments in a list, which is emptied."""
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        if len(args_list) != len(placeholders):
            detail = "extra arguments" if len(args_list) > len(placeholders) else "missing arguments"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(placeholders)} arguments for placeholders but received "
                f"{len(args_list)} ({detail})"
            )
        values = dict(zip(placeholders, args_list))
        args_list.clear()
        return self.run(initial_env=values)

    @contextlib.contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{self.__class__.__name__}"):
            yield

    @compatibility(is_backward_compatible=True)
    def run_node(self, n: Node) -> Any:
        """Run one node, and return its value."""
        log.debug("run_node %s", n)
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            if not isinstance(args, tuple):
                raise AssertionError(f"Expected args to be tuple, got {type(args)}")
            if not isinstance(kwargs, dict):
                raise AssertionError(f"Expected kwargs to be dict, got {type(kwargs)}")
            return getattr(self, n.op)(n.target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next argument of `run`, or all that are left for `*args`."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration as error:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from error

    @compatibility(is_backward_compatible=True)
    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return an attribute of the module hierarchy."""
        return self.fetch_attr(target)  # type: ignore[arg-type]

    @compatibility(is_backward_compatible=True)
    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function."""
        if isinstance(target, str):
            raise AssertionError("target should not be a string for call_function")
        return target(*args, **kwargs)

    @compatibility(is_backward_compatible=True)
    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of `args[0]`."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        return getattr(args[0], target)(*args[1:], **kwargs)

    @compatibility(is_backward_compatible=True)
    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module of the hierarchy."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        return self.fetch_attr(target)(*args, **kwargs)

    @compatibility(is_backward_compatible=True)
    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of the graph."""
        return args[0]

    @compatibility(is_backward_compatible=True)
    def fetch_attr(self, target: str) -> Any:
        """Return the attribute at a path.

        Raises:
            RuntimeError: There is none.
        """
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        found, atoms = self.module, target.split(".")
        for i, atom in enumerate(atoms):
            if not hasattr(found, atom):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(atoms[: i + 1])}")
            found = getattr(found, atom)
        return found

    @compatibility(is_backward_compatible=True)
    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the values of the arguments of a node."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    @compatibility(is_backward_compatible=True)
    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Return arguments with values in place of nodes. `n` is the node that has them."""

        def value(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[used]

        return map_arg(args, value)


class _TransformerTracer(Tracer):
    """A tracer that adds to a graph, and traces into no module."""

    def __init__(self, graph: Graph, root: torch.nn.Module) -> None:
        super().__init__()
        self.graph, self.root = graph, root

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        """Return `True`."""
        return True


@compatibility(is_backward_compatible=True)
class Transformer(Interpreter):
    """An interpreter whose values are proxies: it makes another graph.

    Args:
        module: The graph module.

    Example:
        >>> import pytpu as torch
        >>> class Swap(torch.fx.Transformer):
        ...     def call_method(self, target, args, kwargs):
        ...         return super().call_method("sigmoid" if target == "relu" else target, args, kwargs)
        >>> Swap(torch.fx.symbolic_trace(lambda x: x.relu())).transform()(torch.zeros(1))
        tensor([0.5000])
    """

    @compatibility(is_backward_compatible=True)
    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph, module)

    @compatibility(is_backward_compatible=True)
    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Insert a parameter into the new graph."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    @compatibility(is_backward_compatible=True)
    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Insert a read of an attribute into the new graph."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Insert a call of a module into the new graph, or trace into it if `tracer` does not take it as a leaf."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Insert a call of a function into the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def transform(self) -> GraphModule:
        """Run the graph with proxies, and return the module of the new graph."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            made = self.new_graph.output(map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a))
            old = self.graph._root._prev
            if old.op != "output":
                raise AssertionError(f"Expected output node, got op={old.op}")
            made.meta.update(old.meta)
        return GraphModule(self.module, self.new_graph)
