"""`torch.fx._lazy_graph_module`: the function that makes graph modules. Their code is generated at once here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .graph_module import GraphModule


class _LazyGraphModule(GraphModule):
    """A graph module whose code PyTorch generates at its first use."""

    @classmethod
    def from_graphmodule(cls, gm: Any) -> Any:
        """Return the module itself."""
        return gm

    @staticmethod
    def force_recompile(gm: Any) -> None:
        """Do nothing: the code is generated."""

    def real_recompile(self) -> Any:
        """Generate the code."""
        return self.recompile()


@contextlib.contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    yield


def _make_graph_module(*args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any) -> GraphModule:
    return (graph_module_cls or GraphModule)(*args, **kwargs)
