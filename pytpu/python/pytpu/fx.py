"""``torch.fx``: what libraries ask of it where they do not trace. Graphs of Python code are not made here."""

__all__ = ["Graph", "GraphModule", "Node", "Proxy", "symbolic_trace", "wrap"]


class Proxy:
    """What stands for a value while a graph is made. As none is ever made, no value is one."""


class Graph:
    """A graph of Python code: none is ever made."""

    def __init__(self, *args, **kwargs):
        symbolic_trace(None)


class GraphModule(Graph):
    """A module that runs one: none is ever made."""


class Node(Graph):
    """A call in one: none is ever made."""


def wrap(fn_or_name):
    """The function or name itself: a mark that only tracing would read."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name


def symbolic_trace(root, concrete_args=None):
    """Raises ``NotImplementedError``."""
    raise NotImplementedError("torch.fx.symbolic_trace: graphs of Python code are not made here")
