"""``torch._dynamo``: graphs of what compiled functions do, for backends. Python runs, and no code is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..compiler import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    is_compiling as is_compiling,
    nonstrict_trace as nonstrict_trace,
    reset as _reset,
    set_stance as set_stance,
    substitute_in_graph as substitute_in_graph,
)
from ..functions import _once, compile as _compile
from . import config as config, eval_frame as eval_frame, exc as exc, utils as utils
from .backends.registry import (
    list_backends as list_backends,
    lookup_backend as lookup_backend,
    register_backend as register_backend,
)
from .eval_frame import OptimizedModule as OptimizedModule

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "explain",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "optimize_assert",
    "patch_dynamo_config",
    "register_backend",
    "reset",
    "run",
    "set_stance",
    "substitute_in_graph",
]


def reset() -> None:
    """Forget the graphs that backends compiled, and the counts of ``torch._dynamo.utils.counters``."""
    from .utils import counters

    _reset()
    counters.clear()


def reset_code_caches() -> None:
    """Forget the graphs that backends compiled."""
    _reset()


def disallow_in_graph(fn: Any) -> Any:
    """Return a function that runs outside of graphs: a graph ends before each call."""
    if isinstance(fn, (list, tuple)):
        return [disallow_in_graph(f) for f in fn]
    return disable(fn)


forbid_in_graph = disallow_in_graph


def graph_break(msg: str = "") -> None:
    """End the graph of a compiled function here. Without a backend that gets graphs, do nothing."""
    from ..compiler import _region

    region = _region()
    if region is not None:
        region.end("Call to `torch._dynamo.graph_break()`" + (f": {msg}" if msg else ""))


def mark_static_address(t: Any, guard: bool = False) -> None:
    """A hint that is not needed."""


def mark_static(t: Any, index: Any = None) -> None:
    """Do nothing: sizes are part of each compiled program."""


def mark_dynamic(
    t: Any, index: Any, *, hint_override: Any = None, min: Any = None, max: Any = None, specialize_on: Any = None
) -> None:
    """Warn once that marks have no effect: sizes are part of each compiled program."""
    _once(
        "torch._dynamo.mark_dynamic has no effect: sizes are part of each compiled program, so each size is a program. "
        "Pad inputs to a few sizes instead. torch.tpu.explain() lists the compilations."
    )


maybe_mark_dynamic = mark_dynamic


def patch_dynamo_config(arg1: Any = None, arg2: Any = None, **kwargs: Any) -> Any:
    """Return a block, or a decorator, with other settings of ``torch._dynamo.config``."""
    return config.patch(arg1, arg2, **kwargs)


def optimize(
    backend: Any = "inductor", *, nopython: bool = False, dynamic: bool | None = None, disable: bool = False, **_: Any
) -> Callable[[Any], Any]:
    """Return ``torch.compile`` with these arguments as a decorator."""
    lookup_backend(backend)
    return lambda model: _compile(model, fullgraph=nopython, dynamic=dynamic, backend=backend, disable=disable)


def optimize_assert(backend: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Do as `optimize` with ``nopython=True``."""
    kwargs.pop("nopython", None)
    return optimize(backend, nopython=True, **kwargs)


def run(fn: Any = None) -> Any:
    """Return a function that makes no new graphs: where there is none, it runs without a backend."""
    if fn is None:
        return run
    import functools

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with set_stance("eager_on_recompile"):
            return fn(*args, **kwargs)

    return call


def is_dynamo_supported() -> bool:
    """Return ``True``: ``torch.compile`` may be used."""
    return True


is_inductor_supported = is_dynamo_supported


def is_dynamo_disable_recursive(method: Any) -> bool | None:
    """Return whether a function comes from `disable`, or ``None``."""
    return True if getattr(method, "_torchdynamo_disable", False) else None


def explain(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Return a function that runs `f` and returns its graphs, and why there are several.

    Args:
        f: a function or module.
        extra_args: arguments. With them, `f` runs at once.
        extra_kwargs: the same, by name.

    Returns:
        A function with the parameters of `f` that returns an ``ExplainOutput``, which can be printed.

    Example:
        >>> import pytpu as torch
        >>> found = torch._dynamo.explain(lambda x: x.sin() + (1 if x.sum() > 0 else 2))(torch.ones(2))
        >>> found.graph_count, found.graph_break_count
        (2, 1)
    """

    def inner(*args: Any, **kwargs: Any) -> Any:
        from . import _capture
        from .backends.debugging import ExplainOutput

        reset()
        graphs: list[Any] = []

        def keep(gm: Any, example_inputs: Any) -> Any:
            graphs.append(gm)
            return gm.forward

        if isinstance(f, OptimizedModule):
            program: Any = f._orig_mod.__call__
        else:
            program = getattr(f, "_torchdynamo_orig_callable", f)
            program = program.__call__ if hasattr(program, "forward") else program
        compiled = _capture.Compiled(program, keep, "explain", False, 1 << 30)
        compiled(*args, **kwargs)
        ops = [[n.target for n in gm.graph.nodes if n.op == "call_function"] for gm in graphs]
        times = "TorchDynamo compilation metrics:\nFunction, Runtimes (s)\n" + "\n".join(
            f"{name}, {', '.join(f'{t:.4f}' for t in spent)}" for name, spent in _capture.compile_times.items()
        )
        reset()
        return ExplainOutput(graphs, len(graphs), len(graphs) - 1, compiled.reasons, sum(map(len, ops)), ops, [], times)

    if extra_args or extra_kwargs:
        return inner(*extra_args, **extra_kwargs)
    return inner
