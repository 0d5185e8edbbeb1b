"""Backends that run graphs as they are, to see what a program does, and the results of ``torch._dynamo.explain``."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from .common import aot_autograd
from .registry import register_debug_backend as register_backend

log = logging.getLogger("torch._dynamo.backends.debugging")


@register_backend
def eager(gm: Any, fake_tensor_inputs: Any, **kwargs: Any) -> Callable[..., Any]:
    """Return the graph as a function."""
    if kwargs:
        log.warning("eager backend ignoring extra kwargs %s", kwargs)
    forward: Callable[..., Any] = gm.forward
    return forward


@register_backend
def eager_noexcept(gm: Any, fake_tensor_inputs: Any, **kwargs: Any) -> Callable[..., Any]:
    """Return the graph as a function whose errors are of ``torch._dynamo``."""
    if kwargs:
        log.warning("eager_noexcept backend ignoring extra kwargs %s", kwargs)

    def inner(*args: Any) -> Any:
        from ..exc import TorchDynamoException

        try:
            return gm(*args)
        except Exception as error:
            raise TorchDynamoException("Unexpected exception when running generated GraphModule") from error

    return inner


@register_backend
def eager_debug(gm: Any, fake_tensor_inputs: Any, **kwargs: Any) -> Callable[..., Any]:
    """Return a function that runs the graph node by node."""
    from ...fx import Interpreter

    return lambda *args: Interpreter(gm).run(*args)


@register_backend
def pre_dispatch_eager(gm: Any, fake_tensor_inputs: Any, **kwargs: Any) -> Any:
    """Print the graph of operators before autograd, and return it."""
    from ...fx import Interpreter
    from ...fx.experimental.proxy_tensor import make_fx

    def runnable(*args: Any) -> Any:
        return Interpreter(gm).run(*args)

    made = make_fx(runnable, pre_dispatch=True)(*fake_tensor_inputs)
    made.print_readable()
    return made


def boxed_nop(fx_g: Any, example_inputs: Any) -> Callable[..., Any]:
    """Return the graph as a function of a list, which it empties."""

    def run(args: list[Any]) -> Any:
        inputs = list(args)
        args.clear()
        return fx_g(*inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def aot_eager(gm: Any, fake_tensor_inputs: Any, fw_compiler: Any = None, bw_compiler: Any = None, **kwargs: Any) -> Any:
    """Return a function that runs the graphs of operators of forward and backward."""
    if kwargs:
        log.warning("aot_eager backend ignoring extra kwargs %s", kwargs)
    compiler = aot_autograd(fw_compiler=fw_compiler or boxed_nop, bw_compiler=bw_compiler or boxed_nop)
    return compiler(gm, fake_tensor_inputs)


register_backend(aot_eager)


@register_backend
def aot_eager_default_partitioner(gm: Any, fake_tensor_inputs: Any, **kwargs: Any) -> Any:
    """Do as `aot_eager`."""
    return aot_autograd(fw_compiler=boxed_nop)(gm, fake_tensor_inputs)


@register_backend
def aot_eager_decomp_partition(gm: Any, fake_tensor_inputs: Any, **kwargs: Any) -> Any:
    """Do as `aot_eager`, with operators taken apart as ``torch.export`` does."""
    from ...export import default_decompositions

    return aot_autograd(fw_compiler=boxed_nop, decompositions=default_decompositions())(gm, fake_tensor_inputs)


@dataclasses.dataclass
class ExplainOutput:
    """What ``torch._dynamo.explain`` found.

    Attributes:
        graphs: the graphs.
        graph_count: their number.
        graph_break_count: how often a graph ended before the function.
        break_reasons: why, with the frames of the user.
        op_count: the number of calls in all graphs.
        ops_per_graph: the targets of the calls of each graph.
        out_guards: always empty: graphs have no guards here.
        compile_times: a table of times.
    """

    graphs: list[Any]
    graph_count: int
    graph_break_count: int
    break_reasons: list[Any]
    op_count: int
    ops_per_graph: list[list[Any]] | None = None
    out_guards: list[Any] | None = None
    compile_times: str | None = None

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for number, reason in enumerate(self.break_reasons):
            lines += [f"  Break Reason {number + 1}:", f"    Reason: {reason.reason}", "    User Stack:"]
            lines += [f"      {frame}" for frame in reason.user_stack]
        if self.ops_per_graph is not None:
            lines.append("Ops per Graph:")
            for number, ops in enumerate(self.ops_per_graph):
                lines += [f"  Ops {number + 1}:", *(f"    {op}" for op in ops)]
        if self.out_guards is not None:
            lines.append("Out Guards:")
        if self.compile_times is not None:
            lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines) + "\n"


class ExplainWithBackend:
    """A backend that notes its graphs and calls another backend.

    Args:
        backend: the other backend.
    """

    def __init__(self, backend: Any) -> None:
        from .registry import lookup_backend

        self.backend = lookup_backend(backend)
        self.graphs: list[Any] = []
        self.op_count = 0
        self.break_reasons: list[Any] = []

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.graphs.append(gm)
        self.op_count += sum(node.op.startswith("call") for node in gm.graph.nodes)
        return self.backend(gm, example_inputs)

    def output(self) -> ExplainOutput:
        """Return what was found."""
        ops = [[n.target for n in g.graph.nodes if n.op == "call_function"] for g in self.graphs]
        count = len(self.graphs)
        return ExplainOutput(self.graphs, count, count - 1, self.break_reasons, self.op_count, ops)
