"""`torch.fx.passes.operator_support`: which nodes a backend can run."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytpu as torch

from .._compatibility import compatibility
from ..node import Node
from .shape_prop import TensorMetadata
from .tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

TargetTypeName = str
SupportedArgumentDTypes = tuple[Sequence[Sequence[torch.dtype]], dict[str, Sequence[torch.dtype]]] | None
SupportDict = Mapping[TargetTypeName, SupportedArgumentDTypes]
_Modules = Mapping[str, torch.nn.Module]
IsNodeSupported = Callable[[_Modules, Node], bool]


@compatibility(is_backward_compatible=False)
class OperatorSupportBase(abc.ABC):
    """The question whether a backend can run a node."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: _Modules, node: Node) -> bool:
        """Return whether the backend can run the node. `submodules` has the modules by path."""
        raise NotImplementedError


@compatibility(is_backward_compatible=False)
class OperatorSupport(OperatorSupportBase):
    """A table of targets.

    Args:
        support_dict: The dtypes of the arguments by target, or `None` for all: a pair of a tuple for positional
            arguments, with `None` for one that may have any, and a dictionary for keyword arguments.
    """

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: _Modules, node: Node) -> bool:
        """Return whether the target is in the table, with the dtypes of the arguments."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        accepted = self._support_dict[target]
        if accepted is None:
            return True
        by_place, by_name = accepted
        asked: list[tuple[Any, Any]] = list(zip(node.args, by_place))
        asked += [(node.kwargs[name], dtypes) for name, dtypes in by_name.items() if name in node.kwargs]
        return all(
            dtypes is None or not isinstance(arg, Node) or _get_arg_dtype(arg) in dtypes for arg, dtypes in asked
        )


class _Function(OperatorSupportBase):
    def __init__(self, function: IsNodeSupported) -> None:
        self.function = function

    def is_node_supported(self, submodules: _Modules, node: Node) -> bool:
        return self.function(submodules, node)


@compatibility(is_backward_compatible=False)
def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Return the question that a function answers."""
    return _Function(is_node_supported)


@compatibility(is_backward_compatible=False)
def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return the question whether all of these say yes."""
    return _Function(lambda modules, node: all(each.is_node_supported(modules, node) for each in op_support))


@compatibility(is_backward_compatible=False)
def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return the question whether one of these says yes."""
    return _Function(lambda modules, node: any(each.is_node_supported(modules, node) for each in op_support))


@compatibility(is_backward_compatible=False)
class OpSupports:
    """Questions to combine with `chain` and `any_chain`."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: torch.dtype) -> OperatorSupportBase:
        """Say no if an argument has the dtype."""
        return _Function(lambda modules, node: all(_get_arg_dtype(arg) != dtype for arg in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Say no if the node has one of the names."""
        return _Function(lambda modules, node: node.name not in disallow_set)


def _get_arg_dtype(arg: Node) -> Any:
    if not isinstance(arg, Node):
        raise AssertionError(f"Expected torch.fx.Node, got {type(arg)}")
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta["type"]
