"""``torch.fx``: names that libraries use without tracing. Graphs of Python code are not made here."""

from .._absent import absent_class, absent_function
from ..nn.modules.module import Module as _Module

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "wrap",
]

_WHY = "graphs of Python code are not made here"
Interpreter = absent_class("torch.fx.interpreter.Interpreter", _WHY)
Tracer = absent_class("torch.fx._symbolic_trace.Tracer", _WHY)
Transformer = absent_class("torch.fx.interpreter.Transformer", _WHY, Interpreter)


# Values that a graph's node may have as arguments, for annotations.
Argument = BaseArgumentTypes = object
map_arg, map_aggregate = (absent_function(f"torch.fx.node.{name}", _WHY) for name in ("map_arg", "map_aggregate"))
replace_pattern = absent_function("torch.fx.subgraph_rewriter.replace_pattern", _WHY)


def has_side_effect(fn):
    """Return the function itself: only graphs use the mark."""
    return fn


class Proxy:
    """The stand-in for a value while a graph is made. No graph is made here, so it has no instances."""


class Graph:
    """A graph of Python code. None is made here."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(f"torch.fx.{type(self).__name__}: {_WHY}")


class GraphModule(_Module):
    """A module that runs a graph. None is made here."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(f"torch.fx.GraphModule: {_WHY}")


class Node(Graph):
    """A call in one: none is ever made."""


def wrap(fn_or_name):
    """Return the function or name itself: only tracing uses the mark."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name
