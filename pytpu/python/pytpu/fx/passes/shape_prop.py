"""`torch.fx.passes.shape_prop`: sizes and dtypes of the values of a graph."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

import pytpu as torch

from .._compatibility import compatibility
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


@compatibility(is_backward_compatible=True)
class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: torch.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: torch.Tensor, include_contiguity: bool = True) -> TensorMetadata:
    formats = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d) if include_contiguity else ()
    ranks = {torch.channels_last: 4, torch.channels_last_3d: 5}
    found = (
        each
        for each in formats
        if ranks.get(each, result.dim()) == result.dim() and result.is_contiguous(memory_format=each)
    )
    shape, stride = result.shape, result.stride()
    return TensorMetadata(shape, result.dtype, result.requires_grad, stride, next(found, None), False, {})


@compatibility(is_backward_compatible=True)
class ShapeProp(Interpreter):
    """An interpreter that notes sizes and dtypes: `node.meta["tensor_meta"]` and `node.meta["type"]`.

    Args:
        gm: The module with the graph.
        fake_mode: A context in which the nodes run.

    Example:
        >>> import pytpu as torch
        >>> from torch.fx.passes.shape_prop import ShapeProp
        >>> module = torch.fx.symbolic_trace(lambda x: x.sum(0))
        >>> result = ShapeProp(module).propagate(torch.ones(2, 3))
        >>> [tuple(node.meta["tensor_meta"].shape) for node in module.graph.nodes]
        [(2, 3), (3,), (3,)]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_module = None
        self.fake_mode = fake_mode
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """Run a node, and note what its value is."""
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                with self.fake_mode:
                    result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        tensors = []

        def note(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            tensors.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, note)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph, and return its result."""
        return super().run(*args)
