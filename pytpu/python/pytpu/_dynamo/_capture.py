"""Capture of what compiled functions do, for backends of ``torch.compile``.

Python runs at each call. A `Region` sees each torch function that the call runs, describes its result by a fake tensor,
and keeps the call in a list. Where a value is read, and at the end, the list runs: a backend compiles its graph once,
and the results take the place of the fake tensors. No Python code is inspected, so nothing can go stale.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytpu as torch

from .. import _C as _extension, random as _random
from .._subclasses import fake_tensor as _fake
from ..autograd import function as _function
from ..compiler import _calls
from ..fx import GraphModule
from . import config, exc
from ._graphs import _graph_numbers, _interpreted, graph_module
from ._region import (
    _UNKNOWN,
    GraphCompileReason,
    Region,
    _current,
    _Entry,
    _Ref,
    _run_program,
    _text,
    _under,
    current,
)
from .utils import counters

_C: Any = _extension
Tensor = torch.Tensor


class Compiled:
    """A function or the call of a module, compiled by a backend.

    Args:
        program: the function.
        backend: a function of a graph and its inputs.
        backend_name: its name, for texts.
        fullgraph: whether the program must be one graph.
        limit: how many graphs one place may have. The default is that of `config`.
    """

    def __init__(
        self,
        program: Callable[..., Any],
        backend: Any,
        backend_name: str,
        fullgraph: bool,
        limit: int | None = None,
    ) -> None:
        self.program, self.backend, self.backend_name, self.fullgraph = program, backend, backend_name, fullgraph
        self.limit = limit
        self.cache: dict[Any, list[_Entry]] = {}
        self.counts: dict[int, int] = {}
        self.last_keys: dict[int, Any] = {}
        self.is_limited = False
        self.calls = 0
        self.reasons: list[GraphCompileReason] = []
        self.observers: list[Callable[..., None]] = []
        _all.add(self)

    def reset(self) -> None:
        """Forget all graphs."""
        self.cache.clear()
        self.counts.clear()
        self.last_keys.clear()
        self.is_limited, self.calls = False, 0

    def broken(self, reason: GraphCompileReason) -> None:
        """Note that a graph ended before the function."""
        counters["graph_break"][reason.reason] += 1
        self.reasons.append(reason)
        _log("graph_breaks", "Graph break in user code: %s%s", reason.reason, _text(reason.user_stack))

    def compile_new(self, region: Region, key: Any, outputs: list[_Ref], reason: Any) -> _Entry:
        """Compile the graph of a region, or run it as it is where limits or the stance say so."""
        from ..compiler import _stance

        plain = _Entry(outputs, _interpreted(region.calls, outputs))
        code = getattr(self.program, "__code__", None) or getattr(
            getattr(getattr(self.program, "__self__", None), "forward", None), "__code__", None
        )
        named = (
            (code.co_filename, code.co_name, code.co_firstlineno) if code is not None else ("?", repr(self.program), 0)
        )
        if _stance.stance == "eager_on_recompile":
            return plain
        if _stance.stance == "fail_on_recompile":
            raise RuntimeError(
                "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
                f"filename: '{named[0]}', function name: '{named[1]}', line number: {named[2]}"
            )
        is_eager = _stance.stance == "eager_then_compile" and self.calls == 1
        if is_eager:
            return plain
        count = self.counts.get(region.segment, 0)
        if count:
            why = _difference(self.last_keys.get(region.segment), key)
            counters["recompiles"][why] += 1
            _log("recompiles", "Recompiling function %s in %s:%d\n    %s", named[1], named[0], named[2], why)
            if config.error_on_recompile:
                raise exc.RecompileError(f"Recompiling function {named[1]} in {named[0]}:{named[2]}\n    {why}")
        limit = config.limit() if self.limit is None else self.limit
        if count >= limit:
            if self.fullgraph:
                raise exc.FailOnRecompileLimitHit("Hard failure due to fullgraph=True")
            if config.fail_on_recompile_limit_hit:
                raise exc.FailOnRecompileLimitHit("recompile_limit reached")
            if not self.is_limited:
                self.is_limited = True
                import logging

                logging.getLogger("torch._dynamo").warning(
                    "torch._dynamo hit config.recompile_limit (%d)\n   function: '%s' (%s:%d)\n   last reason: %s\n"
                    'To log all recompilation reasons, use TORCH_LOGS="recompiles".',
                    limit,
                    named[1],
                    named[0],
                    named[2],
                    _difference(self.last_keys.get(region.segment), key),
                )
            return plain
        self.counts[region.segment] = count + 1
        self.last_keys[region.segment] = key
        backend, name = self.backend, self.backend_name
        if _stance.stance == "aot_eager_then_compile" and self.calls == 1:
            from .backends.registry import lookup_backend

            backend, name = lookup_backend("aot_eager"), "aot_eager"
        elif _stance.backend is not None:
            from .backends.registry import lookup_backend

            backend = lookup_backend(_stance.backend)
            name = getattr(backend, "__name__", str(backend))
        started = time.perf_counter()
        module = graph_module(region, outputs)
        number = next(_graph_numbers)
        module._backend_id = f"__compiled_fn_{number}"  # type: ignore[assignment]
        module.meta["backend_id"] = f"__compiled_fn_{number}"
        operations = sum(n.op.startswith("call") for n in module.graph.nodes)
        counters["stats"]["calls_captured"] += operations
        counters["stats"]["unique_graphs"] += 1
        _log_graph(module, number)
        for observer in self.observers:
            observer(module, reason)
        try:
            with _under(region.first_settings):
                fn = backend(module, list(region.inputs))
            if not callable(fn):
                raise AssertionError("compiler_fn did not return callable")
        except exc.TorchDynamoException:
            raise
        except Exception as error:
            if not config.suppress_errors:
                raise exc.BackendCompilerFailed(name, error) from error
            fn = plain.fn
        counters["frames"]["total"] += 1
        counters["frames"]["ok"] += 1
        compile_times.setdefault("_compile.compile_inner", []).append(time.perf_counter() - started)
        entry = _Entry(outputs, fn)
        self.cache.setdefault(key, []).append(entry)
        return entry

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from ..compiler import _stance

        if (
            _stance.stance == "force_eager"
            or _current.region is not None
            or config.disable
            or _C._torch_dispatch_modes()
            or _fake._active() is not None
        ):
            # Within a region this function is a part of the outer one.
            return self.program(*args, **kwargs)
        self.calls += 1
        region = Region(self, self.program, args, kwargs)
        _current.region = region
        _calls.depth += 1
        try:
            with region:
                result = _run_program(self.program, args, kwargs)
            region.end()
            _check_results(result)
        except BaseException:
            # What the program did before the error is done.
            if not self.fullgraph and region.calls:
                with contextlib.suppress(exc.TorchDynamoException):
                    region.end()
            raise
        finally:
            _calls.depth -= 1
            _current.region = None
        return result


def _check_results(result: Any, depth: int = 0) -> None:
    """Raise an error for results without elements."""
    if isinstance(result, Tensor):
        if _C._is_fake(result):
            raise RuntimeError(_UNKNOWN)
    elif depth < 4 and isinstance(result, (list, tuple)) and type(result) is not torch.Size:
        for item in result:
            _check_results(item, depth + 1)
    elif depth < 4 and isinstance(result, dict):
        for item in result.values():
            _check_results(item, depth + 1)


_all: weakref.WeakSet[Compiled] = weakref.WeakSet()
#: Seconds by what was done.
compile_times: dict[str, list[float]] = {}


def reset() -> None:
    """Forget the graphs of all compiled functions."""
    for compiled in list(_all):
        compiled.reset()
    compile_times.clear()


def _difference(before: Any, now: Any) -> str:
    """Return what makes a graph another one than the last."""
    if before is None:
        return "first graph"
    if before[1] != now[1]:
        return "GLOBAL_STATE changed: gradients, autocast or the default dtype"
    names = ("class", "dtype", "size", "stride", "device", "requires_grad")
    inputs = 0
    for a, b in zip(before[2], now[2]):
        if b[0] == "input":
            inputs += 1
        if a == b:
            continue
        if a[0] == b[0] == "input":
            for name, x, y in zip(names, a[1:], b[1:]):
                if x != y:
                    return f"tensor {inputs - 1}: {name} mismatch. expected {x}, actual {y}"
        return f"call {getattr(b[0], '__name__', b[0])}: another function or another argument"
    return "another number of calls, or another value is kept"


# ---- logs


def _log(artifact: str, text: str, *args: Any) -> None:
    from .._logging import getArtifactLogger

    getArtifactLogger("torch._dynamo", artifact).debug(text, *args)


def _log_graph(module: GraphModule, number: int) -> None:
    from .._logging import getArtifactLogger
    from .._logging._internal import is_artifact_on

    if is_artifact_on("graph_code"):
        text = module.print_readable(print_output=False)
        getArtifactLogger("torch._dynamo", "graph_code").debug(
            "TRACED GRAPH\n ===== __compiled_fn_%d =====\n %s", number, text
        )
    if is_artifact_on("graph"):
        rows = [
            f"{n.op:15} {n.name:20} {n._pretty_print_target(n.target)} {n.args} {n.kwargs}" for n in module.graph.nodes
        ]
        getArtifactLogger("torch._dynamo", "graph").debug(
            "TRACED GRAPH\n __compiled_fn_%d\n%s", number, "\n".join(rows)
        )


class _Notice:
    """Stands for a region: it notes each `torch.autograd.Function` that runs."""

    paused = False
    calls = ()

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def apply(self, func: Any, args: Any, kwargs: Any) -> Any:
        self.names.append(func.__self__.__name__)
        _current.region = None
        try:
            return func(*args, **kwargs)
        finally:
            _current.region = self


@contextlib.contextmanager
def noticing(names: list[str]) -> Iterator[None]:
    """Return a block that adds the name of each `torch.autograd.Function` that runs to `names`."""
    before = _current.region
    _current.region = _Notice(names)
    try:
        yield
    finally:
        _current.region = before


def _before_seed() -> None:
    """Run random functions that are recorded, before the state of the generator is read or set."""
    region = current()
    if region is not None and region.calls:
        region.end("the state of the random generator")


_function._region = current
_random._before_state = _before_seed
