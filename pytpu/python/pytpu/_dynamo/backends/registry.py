"""Names of backends of ``torch.compile``.

A backend is a function of a `torch.fx.GraphModule` and a list of its inputs, which returns what is called from then on.
Packages register one by `register_backend`, or by an entry point of the group ``torch_dynamo_backends``.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "get_default_backend",
    "list_backends",
    "lookup_backend",
    "register_backend",
    "register_debug_backend",
    "register_experimental_backend",
    "set_default_backend",
]

CompiledFn = Callable[..., Any]
CompilerFn = Callable[..., Any]

#: Entry points by name, and ``None`` for backends that are registered by a call.
_BACKENDS: dict[str, Any] = {}
_COMPILER_FNS: dict[str, CompilerFn] = {}
_BACKEND_TAGS: dict[str, tuple[str, ...]] = {}
_default_backend: str | CompilerFn = "inductor"


def register_backend(compiler_fn: Any = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Give a backend a name for ``torch.compile(backend=...)``.

    Args:
        compiler_fn: the backend. Without it, return a decorator.
        name: its name. The default is the name of the function.
        tags: words for `list_backends`.

    Raises:
        AssertionError: The name is taken, or `compiler_fn` is not callable.
    """

    def register(backend: Any) -> Any:
        own = name or backend.__name__
        if own in _COMPILER_FNS:
            raise AssertionError(f"duplicate name: {own}")
        _COMPILER_FNS[own] = backend
        _BACKENDS.setdefault(own, None)
        _BACKEND_TAGS[own] = (*tags,)
        return backend

    if compiler_fn is None:
        return register
    if not callable(compiler_fn):
        raise AssertionError(f"compiler_fn must be callable, got {type(compiler_fn)}")
    return register(compiler_fn)


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


def lookup_backend(compiler_fn: Any) -> CompilerFn:
    """Return a backend by its name. A function is returned itself.

    Raises:
        torch._dynamo.exc.InvalidBackend: There is no such name.
    """
    if not isinstance(compiler_fn, str):
        return typing.cast(CompilerFn, compiler_fn)
    _lazy_import()
    if compiler_fn not in _BACKENDS:
        import difflib

        from ..exc import InvalidBackend

        raise InvalidBackend(compiler_fn, difflib.get_close_matches(compiler_fn, list_backends(), n=2))
    if compiler_fn not in _COMPILER_FNS:
        register_backend(_BACKENDS[compiler_fn].load(), name=compiler_fn)
    return _COMPILER_FNS[compiler_fn]


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Return the names of backends that have none of these tags."""
    _lazy_import()
    excluded = set(exclude_tags or ())
    return sorted(name for name in _BACKENDS if not excluded.intersection(_BACKEND_TAGS.get(name, ())))


@functools.cache
def _lazy_import() -> None:
    from . import debugging, inductor  # noqa: F401 - they register their backends

    _discover_entrypoint_backends()


@functools.cache
def _discover_entrypoint_backends() -> None:
    from importlib.metadata import entry_points

    for point in entry_points(group="torch_dynamo_backends"):
        _BACKENDS.setdefault(point.name, point)


def set_default_backend(backend: Any) -> None:
    """Set the backend of ``torch.compile`` without ``backend``. ``None`` sets ``inductor`` again.

    Raises:
        TypeError: `backend` is neither a name nor a function.
    """
    global _default_backend
    if backend is None:
        backend = "inductor"
    if not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a string or callable, got {type(backend)}")
    _default_backend = backend


def get_default_backend() -> Any:
    """Return the backend of ``torch.compile`` without ``backend``."""
    return _default_backend
