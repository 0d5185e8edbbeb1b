"""`torch.fx.passes.infra.pass_base`: a change of a graph."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from ..._compatibility import compatibility
from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


@compatibility(is_backward_compatible=False)
class PassResult(NamedTuple):
    """The module after a pass, and whether the pass changed it."""

    graph_module: Any
    modified: bool


@compatibility(is_backward_compatible=False)
class PassBase(abc.ABC):
    """A pass: subclasses have `call`."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Check the module, change it, and check it again."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change the module."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise an error if the module cannot be changed."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise an error if the changed module is not right."""
