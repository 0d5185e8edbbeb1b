"""Context managers that set whether autograd records."""

from __future__ import annotations

import functools

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, overload

    from typing_extensions import Self

    _F = TypeVar("_F", bound=Callable[..., Any])


_set = _C._set_grad_enabled


class _Mode:
    """Base class of context managers that are decorators too."""

    def __call__(self, f: _F) -> _F:
        import inspect  # It is slow to import, and rarely needed.

        if isinstance(f, type):
            import warnings

            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or "
                "methods. To preserve the current behavior of class decoration, you can directly decorate the "
                "`__init__` method "
                "and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
        if inspect.isgeneratorfunction(f):

            @functools.wraps(f)
            def generator(*args, **kwargs):
                # The mode is on while the generator runs, not while it waits.
                g = f(*args, **kwargs)
                step = functools.partial(next, g)
                while True:
                    with self._again():
                        try:
                            item = step()
                        except StopIteration as stop:
                            return stop.value
                    try:
                        step = functools.partial(g.send, (yield item))
                    except GeneratorExit:
                        with self._again():
                            g.close()
                        raise
                    except BaseException as error:
                        step = functools.partial(g.throw, error)

            return generator  # type: ignore[return-value]  # The wrapper takes what `f` takes.

        @functools.wraps(f)
        def wrapped(*args, **kwargs):
            with self._again():
                return f(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    def _again(self):
        return type(self)()


class no_grad(_Mode):
    """Context manager, or decorator, in which autograd records nothing.

    Results within the block do not require gradients, and need no memory for backward.

    Example:
        >>> import pytpu as torch
        >>> x = torch.ones(1, requires_grad=True)
        >>> with torch.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
        >>> @torch.no_grad()
        ... def double(x):
        ...     return x * 2
        >>> double(x).requires_grad
        False
    """

    if TYPE_CHECKING:

        @overload
        def __new__(cls, orig_func: None = None) -> Self: ...
        @overload
        def __new__(cls, orig_func: _F) -> _F: ...  # type: ignore[misc]  # `@no_grad` without parentheses.

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)

    def __enter__(self) -> None:
        self._before = _set(False)

    def __exit__(self, *_: Any) -> None:
        _set(self._before)


class enable_grad(no_grad):
    """Context manager, or decorator, in which autograd records, also inside of `no_grad`.

    Example:
        >>> import pytpu as torch
        >>> x = torch.ones(1, requires_grad=True)
        >>> with torch.no_grad(), torch.enable_grad():
        ...     y = x * 2
        >>> y.requires_grad
        True
    """

    def __enter__(self) -> None:
        self._before = _set(True)


class set_grad_enabled(_Mode):
    """Turn recording on or off. As a context manager, restore the state at the end of the block.

    Args:
        mode: If `True`, autograd records. If `False`, it does not.

    Example:
        >>> import pytpu as torch
        >>> x = torch.ones(1, requires_grad=True)
        >>> with torch.set_grad_enabled(False):
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._before = _set(self.mode)

    def __enter__(self) -> None:
        _set(self.mode)

    def __exit__(self, *_: Any) -> None:
        _set(self._before)

    def __call__(self, f: _F) -> _F:
        _set(self._before)
        return super().__call__(f)

    def _again(self):
        return set_grad_enabled(self.mode)


class inference_mode(_Mode):
    """Context manager, or decorator, in which autograd records nothing and results are inference tensors.

    Inference tensors have no version counter. They cannot be saved for backward, and can be written to in inference
    mode only.

    Args:
        mode: If `False`, leave inference mode for the block, and record.

    Example:
        >>> import pytpu as torch
        >>> x = torch.ones(1, requires_grad=True)
        >>> with torch.inference_mode():
        ...     y = x * 2
        >>> y.requires_grad, y.is_inference()
        (False, True)
    """

    mode: bool

    if TYPE_CHECKING:

        @overload
        def __new__(cls, mode: bool = True) -> Self: ...
        @overload
        def __new__(cls, mode: _F) -> _F: ...  # type: ignore[misc]  # `@inference_mode` without parentheses.

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        self = object.__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        self.mode = mode
        return self

    def __enter__(self) -> None:
        self._before = _C._set_inference_mode(bool(self.mode), not self.mode)

    def __exit__(self, *_: Any) -> None:
        _C._set_inference_mode(*self._before)

    def _again(self):
        return inference_mode(self.mode)
