"""`torch.compiler`. Most functions do nothing: every op on `tpu` is compiled, also outside of `torch.compile`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .functions import compile as compile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nonstrict_trace",
    "reset",
    "set_stance",
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


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Callable[..., Any]:
    """Return the function itself: Python code is never replaced, so there is nothing to disable.

    Args:
        fn: The function. Without it, return a decorator.
        recursive: Accepted for compatibility.
        reason: Accepted for compatibility.
    """
    return fn if fn is not None else lambda f: f


def allow_in_graph(fn: Any) -> Any:
    """Return the function, or the list of functions, itself."""
    return fn


assume_constant_result = nonstrict_trace = allow_in_graph


def list_backends(exclude_tags: Sequence[str] = ("debug", "experimental")) -> list[str]:
    """Return names for `torch.compile(backend=...)`. All names do the same.

    Args:
        exclude_tags: Accepted for compatibility.

    Example:
        >>> import pytpu as torch
        >>> torch.compiler.list_backends()
        ['inductor', 'tpu']
    """
    return ["inductor", "tpu"]


def reset() -> None:
    """Do nothing. `torch.tpu.clear_cache` drops compiled programs."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there are no CUDA graphs."""


class set_stance:
    """Accept a stance of PyTorch's compiler, as a context manager, as a decorator, or for good. It has no effect.

    Args:
        stance: Name of the stance.
        skip_guard_eval_unsafe: Accepted for compatibility.
        force_backend: Accepted for compatibility.

    Raises:
        RuntimeError: If the name is unknown.

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

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    def __enter__(self) -> set_stance:
        return self

    def __exit__(self, *error: Any) -> None:
        return None
