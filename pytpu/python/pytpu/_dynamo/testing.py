"""``torch._dynamo.testing``: backends that count or keep graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import pytpu as torch

from . import config as config, reset as reset
from .backends.debugging import aot_eager
from .utils import same as same

__all__ = [
    "AotEagerAndRecordGraphs",
    "CompileCounter",
    "CompileCounterWithBackend",
    "EagerAndRecordGraphs",
    "normalize_gm",
    "rand_strided",
    "reduce_to_scalar_loss",
    "same",
]


class CompileCounter:
    """A backend that counts graphs and their calls.

    Attributes:
        frame_count: the number of graphs.
        op_count: the number of calls in them.
    """

    def __init__(self) -> None:
        self.clear()

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        return gm.forward

    def clear(self) -> None:
        """Begin again at 0."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend:
    """A backend that counts and keeps graphs, and calls another backend.

    Args:
        backend: the name of the other backend.
    """

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.clear()

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        from .backends.registry import lookup_backend

        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        """Begin again at 0."""
        self.frame_count = self.op_count = 0
        self.graphs: list[torch.fx.GraphModule] = []


class EagerAndRecordGraphs:
    """A backend that keeps graphs."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward


class AotEagerAndRecordGraphs:
    """A backend that keeps graphs, and those of operators for forward and backward."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self.fw_graphs: list[torch.fx.GraphModule] = []
        self.bw_graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        self.graphs.append(gm)

        def fw_compiler(gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
            self.fw_graphs.append(gm)
            return gm.forward

        def bw_compiler(gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
            self.bw_graphs.append(gm)
            return gm.forward

        result: Callable[..., Any] = aot_eager(gm, example_inputs, fw_compiler=fw_compiler, bw_compiler=bw_compiler)
        return result


def normalize_gm(gm_str: str) -> str:
    """Return the text of a graph without comments and empty lines."""
    lines = (line.split("#")[0].rstrip() for line in gm_str.split("\n"))
    return "\n".join(line for line in lines if line.strip())


def reduce_to_scalar_loss(out: Any) -> Any:
    """Return one number of a nested result, for backward."""
    if isinstance(out, torch.Tensor):
        return out.sum() / out.numel()  # the mean, of integers too
    parts = [out.logits] if hasattr(out, "logits") else out.values() if isinstance(out, dict) else out
    if not isinstance(parts, Iterable):
        raise NotImplementedError("Don't know how to reduce", type(out))
    losses = [reduce_to_scalar_loss(part) for part in parts]
    return sum(losses) / len(losses)


def rand_strided(size: Any, stride: Any, dtype: Any = torch.float32, device: Any = "cpu", extra_size: int = 0) -> Any:
    """Return random numbers with these sizes and strides."""
    needed = sum((shape - 1) * step for shape, step in zip(size, stride)) + 1 + extra_size
    if dtype.is_floating_point or dtype.is_complex:
        buffer = torch.randn(needed, dtype=dtype, device=device)
    else:
        buffer = torch.zeros(needed, dtype=dtype, device=device)
    return torch.as_strided(buffer, size, stride)


@contextlib.contextmanager
def patch(**kwargs: Any) -> Any:
    """Return a block with other settings of ``torch._dynamo.config``."""
    with config.patch(**kwargs):
        yield
