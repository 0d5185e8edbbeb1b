"""Collectives and messages in the profiles of `torch.profiler` and `torch.autograd.profiler`."""

from __future__ import annotations

from .. import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..autograd.profiler import Collector

#: The names in profiles, as PyTorch writes them, of the methods of an engine whose names differ.
_NAMES = {"all_to_all_single": "all_to_all", "irecv": "recv"}


class _ListedEngine:
    """An engine whose calls are listed by a profiler, as `gloo:all_reduce`.

    The time of an asynchronous call is that of its start.

    Args:
        engine: the engine.
        backend: the name of the backend.
        collector: the profiler that runs.
    """

    def __init__(self, engine: Any, backend: str, collector: Collector) -> None:
        self._engine, self._backend, self._collector = engine, backend, collector

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._engine, name)

        def call(tensors: list[Tensor], *arguments: Any) -> Any:
            listed = _NAMES.get(name, name)
            if listed == "recv" and arguments[0] is None:
                listed = "recvAnySource"
            # Methods with outputs and inputs take the inputs second.
            inputs = arguments[0] if arguments and isinstance(arguments[0], list) else tensors
            event = self._collector.enter(f"{self._backend}:{listed}")
            # PyTorch sends complex numbers as pairs.
            shapes = [[*tensor.shape, 2] if tensor.is_complex() else list(tensor.shape) for tensor in inputs]
            event.is_async, event.input_shapes = True, shapes
            try:
                return method(tensors, *arguments)
            finally:
                self._collector.leave(event)

        return call
