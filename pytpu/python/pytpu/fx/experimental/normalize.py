"""`torch.fx.experimental.normalize`: calls in one form."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytpu as torch

from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Node, Target, map_aggregate
from ..operator_schemas import create_type_hint, normalize_function, normalize_module
from ..proxy import Proxy
from .schema_type_annotation import AnnotateTypesWithSchema


class NormalizeArgs(Transformer):
    """A transformer that gives calls their arguments by the parameters of the function, with defaults filled in.

    Args:
        module: The graph module.
        normalize_to_only_use_kwargs: Give all arguments by keyword.
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """Insert a node in one form, with the notes and the type of the old one."""
        if n.op == "call_function":
            args, kwargs = self.fetch_args_kwargs_from_env(n)

            def kind(arg: Any) -> Any:
                return n.meta.get("type") if isinstance(arg, Node) else type(arg)

            arg_types = tuple(create_type_hint(each) for each in map_aggregate(n.args, kind))
            kwarg_types = {key: kind(value) for key, value in kwargs.items()}
            made = self.call_function(n.target, args, kwargs, arg_types, kwarg_types)
        else:
            made = super().run_node(n)
        if n.op != "output":
            self.node_map[made] = n
            made.node.meta = n.meta
            made.node.type = n.type
        return made

    def call_function(
        self,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
    ) -> Any:
        """Insert a call of a function."""
        if not callable(target):
            raise AssertionError(f"Expected callable target, got {type(target)}")
        made = normalize_function(target, args, kwargs, arg_types, kwarg_types, self.normalize_to_only_use_kwargs)
        if made is None:
            return super().call_function(target, args, kwargs)
        return self.tracer.create_proxy("call_function", target, *made)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Insert a call of a module."""
        made = normalize_module(self.module, str(target), args, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *((args, kwargs) if made is None else made))


class NormalizeOperators(AnnotateTypesWithSchema):
    """A transformer that writes functions such as `torch.add` as operators of Python."""

    binary_magic_method_remap: dict[Callable[..., Any], Callable[[Any, Any], Any]] = {
        torch.add: operator.add,
        torch.mul: operator.mul,
        torch.sub: operator.sub,
        torch.div: operator.truediv,
        torch.floor_divide: operator.floordiv,
        torch.remainder: operator.mod,
        torch.eq: operator.eq,
        torch.ne: operator.ne,
        torch.lt: operator.lt,
        torch.le: operator.le,
        torch.gt: operator.gt,
        torch.ge: operator.ge,
    }

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Insert a call of a function, or an operator."""
        if not callable(target):
            raise AssertionError(f"Expected callable target, got {type(target)}")
        # `torch.add(x, y, alpha=2)` is not `x + y`.
        if target in self.binary_magic_method_remap and len(args) == 2 and not kwargs:
            return super().call_function(self.binary_magic_method_remap[target], args, {})
        return super().call_function(target, args, kwargs)
