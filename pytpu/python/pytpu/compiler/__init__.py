"""`torch.compiler`: what programs tell `torch.compile`, and ask it."""

from __future__ import annotations

import functools
import inspect
import sys
import threading

from ..functions import compile as compile
from . import config as config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


__all__ = [
    "PrecompileError",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "cudagraph_mark_warmup_incomplete",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "list_backends",
    "load_cache_artifacts",
    "load_compiled_function",
    "nested_compile_region",
    "nonstrict_trace",
    "precompile",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph",
    "wrap_numpy",
]


class _Calls(threading.local):
    """How many calls of compiled functions this thread is in."""

    depth = 0


_calls = _Calls()


def is_compiling() -> bool:
    """Return whether the caller runs within a function or module that `torch.compile` returned.

    Python code always runs for its results, and is never traced. Libraries ask this to leave out what cannot be
    traced, such as checks that read values, and these checks cost programs here too.

    Example:
        >>> import pytpu as torch
        >>> torch.compiler.is_compiling()
        False
        >>> torch.compile(lambda: torch.compiler.is_compiling())()
        True
    """
    return _calls.depth > 0


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Always return `False`: `torch.tpu.export` records ops as they run."""
    return False


def _region() -> Any:
    """Return the region of a compiled function that records in this thread, or `None`."""
    capture = sys.modules.get("pytpu._dynamo._capture")
    return None if capture is None else capture.current()


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Callable[..., Any]:
    """Return a function that runs outside of the graphs of compiled functions that call it.

    Within it `torch.compiler.is_compiling()` is `False`. A graph of a backend ends before the call.

    Args:
        fn: The function or module. Without it, return a decorator.
        recursive: If `False`, return `fn` itself: functions that it calls may be in graphs.
        reason: The text for `torch._dynamo.explain` and logs.

    Example:
        >>> import pytpu as torch
        >>> @torch.compiler.disable
        ... def asks():
        ...     return torch.compiler.is_compiling()
        >>> torch.compile(asks)()
        False
    """
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)
    if not callable(fn):
        raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
    if not recursive or isinstance(fn, type):
        return fn
    from ..nn import Module

    if isinstance(fn, Module):
        from .._compiled import OptimizedModule

        return OptimizedModule(fn, _outside(fn.__call__, reason))
    return _outside(fn, reason)


def _outside(fn: Callable[..., Any], reason: str | None) -> Callable[..., Any]:
    text = f"Skip calling `torch.compiler.disable()`d function {getattr(fn, '__qualname__', fn)}"
    text += f": {reason}" if reason else ""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        region = _region()
        if region is not None:
            return region.outside(text, fn, args, kwargs)
        depth, _calls.depth = _calls.depth, 0
        try:
            return fn(*args, **kwargs)
        finally:
            _calls.depth = depth

    marked: Any = call
    marked._torchdynamo_disable, marked._torchdynamo_disable_msg = True, reason
    marked._torchdynamo_orig_callable = fn
    return call


def allow_in_graph(fn: Any) -> Any:
    """Return a function whose call is one node of the graphs of backends. What it does is not recorded.

    Args:
        fn: The function, or a list of functions.

    Raises:
        AssertionError: If `fn` is not callable.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    if not inspect.isfunction(fn):
        return fn

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        region = _region()
        return fn(*args, **kwargs) if region is None else region.call(fn, args, kwargs)

    return call


def nonstrict_trace(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose call is one node of the graphs of backends. See `allow_in_graph`."""
    if not callable(traceable_fn):
        raise AssertionError("nonstrict_trace expects a callable")
    traced: Callable[..., Any] = allow_in_graph(traceable_fn)
    return traced


def assume_constant_result(fn: Any) -> Any:
    """Return the function itself: Python runs at each call, so its result is always that of the call."""
    return fn


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that returns its function: `original_fn` runs itself, since no code is traced.

    Args:
        original_fn: The function that a tracer could not follow.
        can_constant_fold_through: Accepted for compatibility.
        skip_signature_check: Whether the functions may have other parameters.

    Raises:
        TypeError: If one of them is no function, or their parameters differ.
    """
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")

    def decorate(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.isfunction(traceable_fn):
            raise TypeError(f"@substitute_in_graph(...) expects a function but got {type(traceable_fn)!r}")
        if not skip_signature_check:
            try:
                original = inspect.signature(original_fn)
            except ValueError:
                return traceable_fn
            given = inspect.signature(traceable_fn)
            pairs = zip(original.parameters.values(), given.parameters.values())
            if len(original.parameters) != len(given.parameters) or any(
                (a.name, a.kind) != (b.name, b.kind) for a, b in pairs
            ):
                raise TypeError(f"Signature mismatch between {original_fn} and {traceable_fn}: {original} != {given}")
        return traceable_fn

    return decorate


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Return names for `torch.compile(backend=...)`.

    Args:
        exclude_tags: Leave out backends with one of these tags. `None` lists all.

    Example:
        >>> import pytpu as torch
        >>> "inductor" in torch.compiler.list_backends()
        True
    """
    from .._dynamo.backends import registry

    return registry.list_backends(exclude_tags)


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """Set the backend of `torch.compile` where it is called without `backend`.

    Args:
        backend: Name or function. `None` sets `"inductor"` again.

    Raises:
        TypeError: If it is neither.
    """
    from .._dynamo.backends import registry

    registry.set_default_backend(backend)


def get_default_backend() -> str | Callable[..., Any]:
    """Return the backend of `torch.compile` where it is called without `backend`."""
    registry = sys.modules.get("pytpu._dynamo.backends.registry")
    return "inductor" if registry is None else registry.get_default_backend()


def reset() -> None:
    """Forget the graphs that backends compiled. `torch.tpu.clear_cache` drops programs of `tpu`."""
    capture = sys.modules.get("pytpu._dynamo._capture")
    if capture is not None:
        capture.reset()


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no CUDA graphs."""


def cudagraph_mark_warmup_incomplete() -> None:
    """Do nothing: there are no CUDA graphs."""


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Return `False`: there are no guards."""
    return False


class _Stance:
    """What compiled functions do: a name, and the backend that takes the place of theirs."""

    stance = "default"
    backend: Any = None


_stance = _Stance()


class set_stance:
    """Set what compiled functions do, for a block, for the calls of a function, or for good.

    Args:
        stance: `default`; `force_eager`: call the Python function; `eager_on_recompile`: where there is no graph
            yet, run without a backend; `fail_on_recompile`: raise an error there; `eager_then_compile`: run the
            first call of each function without a backend; `aot_eager_then_compile`: with backend `aot_eager`.
        skip_guard_eval_unsafe: Accepted for compatibility.
        force_backend: A backend that takes the place of all others.

    Raises:
        RuntimeError: If the name is unknown, or `force_backend` is given with another stance than `default`.

    Example:
        >>> import pytpu as torch
        >>> @torch.compiler.set_stance("force_eager")
        ... def double(x):
        ...     return x * 2
        >>> double(torch.ones(1))
        tensor([2.])
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        known = (
            "default",
            "eager_on_recompile",
            "fail_on_recompile",
            "force_eager",
            "aot_eager_then_compile",
            "eager_then_compile",
        )
        if stance not in known:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if _region() is not None:
            raise RuntimeError("attempted to set_stance in a torch.compile region")
        self.stance, self.backend = stance, force_backend
        self.prev = _stance.stance, _stance.backend
        self.__enter__()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__()

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.stance, force_backend=self.backend):
                return fn(*args, **kwargs)

        return call

    def __enter__(self) -> set_stance:
        _stance.stance, _stance.backend = self.stance, self.backend
        return self

    def __exit__(self, *error: Any) -> None:
        _stance.stance, _stance.backend = self.prev


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors that calls a function of NumPy arrays.

    Gradients do not flow through it, and a graph of a backend ends before it: it runs in NumPy.

    Example:
        >>> import numpy as np
        >>> import pytpu as torch
        >>> torch.compiler.wrap_numpy(np.square)(torch.tensor([2.0]))
        tensor([4.])
    """
    from ..utils import _pytree as pytree

    @functools.wraps(fn)
    def wrap(*args: Any, **kwargs: Any) -> Any:
        import numpy as np

        from .. import Tensor, as_tensor

        args, kwargs = pytree.tree_map_only(Tensor, lambda x: x.numpy(), (args, kwargs))
        return pytree.tree_map_only((np.ndarray, np.generic), as_tensor, fn(*args, **kwargs))

    return wrap


def nested_compile_region(
    fn: Callable[..., Any] | None = None,
    *,
    options: Any = None,
    max_reuse_entries: int = 8,
    reuse_hash_fn: Callable[..., int] | None = None,
) -> Callable[..., Any]:
    """Return the function itself: repeated parts of programs need no mark.

    Args:
        fn: The function. Without it, return a decorator.
        options: Must be `None`.
        max_reuse_entries: Accepted for compatibility.
        reuse_hash_fn: Accepted for compatibility.

    Raises:
        RuntimeError: If `options` is given.
    """
    if options is not None:
        raise RuntimeError("nested_compile_region config is an experimental feature for testing only.")
    return fn if fn is not None else lambda f: f


def save_cache_artifacts() -> tuple[bytes, Any] | None:
    """Return `None`: there are no artifacts. Programs of `tpu` are in a folder, see `torch.tpu`."""
    return None


def load_cache_artifacts(serialized_artifacts: bytes) -> Any:
    """Return `None`: there are no artifacts to load."""
    return None


class PrecompileError(RuntimeError):
    """An error of `precompile`."""


def precompile(*args: Any, **kwargs: Any) -> Any:
    """Raise `NotImplementedError`: Python runs at each call, so a call cannot be saved."""
    raise NotImplementedError(
        "torch.compiler.precompile: Python runs at each call. Save a program by torch.export, or by torch.tpu.export"
    )


def load_compiled_function(file: Any, *, f_globals: Any = None, external_data: Any = None) -> Callable[..., Any]:
    """Raise `NotImplementedError`: the file holds Python bytecode and kernels of PyTorch's compiler."""
    raise NotImplementedError(
        "torch.compiler.load_compiled_function: the file holds kernels of PyTorch's compiler. Save a program by "
        "torch.export.save, and load it by torch.export.load"
    )


# ---- filters of guards: they choose among entries that PyTorch's compiler passes


def keep_portable_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Return which guards are of the global state, of sizes, or of tensors that are no globals."""
    return [
        g.guard_type in ("GLOBAL_STATE", "SHAPE_ENV") or (g.guard_type == "TENSOR_MATCH" and not g.is_global)
        for g in guard_entries
    ]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Return which guards are not of modules of `torch.nn`."""
    return [not g.orig_guard.source.is_unspecialized_builtin_nn_module() for g in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Return which guards are not of modules."""
    return [not g.orig_guard.source.is_unspecialized_nn_module() for g in guard_entries]


def keep_tensor_guards_unsafe(guard_entries: Sequence[Any], keep_parameters: bool = False) -> list[bool]:
    """Return which guards are of tensors, and with `keep_parameters` also of parameters."""
    from ..nn import Parameter

    return [
        g.guard_type == "TENSOR_MATCH" and (keep_parameters or not isinstance(g.value, Parameter))
        for g in guard_entries
    ]


def skip_guard_on_globals_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Return which guards are not of globals."""
    return [not g.is_global for g in guard_entries]


def skip_all_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Return `False` for each guard."""
    return [False for _ in guard_entries]
