"""`torch.fx`: programs as graphs.

`symbolic_trace` runs a module or function with proxies and returns a `GraphModule`: a list of the operations
(`graph`), and the Python code that does them (`code`). A pass changes the list, and `recompile` writes the code
again. `Interpreter` runs a graph node by node, and `Transformer` makes another graph on the way.

Example:
    >>> import pytpu as torch
    >>> module = torch.fx.symbolic_trace(lambda x: x.relu() + 1)
    >>> print(module.code.strip())
    def forward(self, x):
        relu = x.relu();  x = None
        add = relu + 1;  relu = None
        return add
"""

from . import immutable_collections
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
