"""Switches that say whether the history of results is recorded."""

import functools

from .. import _C

_set = _C._set_grad_enabled


class _Mode:
    """A context manager that is a decorator too."""

    def __call__(self, f):
        import inspect  # slow to import, and rarely wanted

        if isinstance(f, type):
            import warnings

            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions or "
                "methods. To preserve the current behavior of class decoration, you can directly decorate the `__init__` method "
                "and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
        if inspect.isgeneratorfunction(f):

            @functools.wraps(f)
            def generator(*args, **kwargs):
                # The mode holds while the generator runs, not while it waits.
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

            return generator

        @functools.wraps(f)
        def wrapped(*args, **kwargs):
            with self._again():
                return f(*args, **kwargs)

        return wrapped

    def _again(self):
        return type(self)()


class no_grad(_Mode):
    """Nothing is recorded within."""

    def __new__(cls, orig_func=None):
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)

    def __enter__(self):
        self._before = _set(False)

    def __exit__(self, *_):
        _set(self._before)


class enable_grad(no_grad):
    """Everything is recorded within, also inside of ``no_grad``."""

    def __enter__(self):
        self._before = _set(True)


class set_grad_enabled(_Mode):
    """Switches recording at once; as a context manager, until the end of the block."""

    def __init__(self, mode):
        self.mode = bool(mode)
        self._before = _set(self.mode)

    def __enter__(self):
        _set(self.mode)

    def __exit__(self, *_):
        _set(self._before)

    def __call__(self, f):
        _set(self._before)
        return super().__call__(f)

    def _again(self):
        return set_grad_enabled(self.mode)


class inference_mode(_Mode):
    """Nothing is recorded within, and tensors made within are inference tensors.

    Inference tensors cannot be kept for backward, and are written within inference mode only. ``inference_mode(False)`` ends the
    mode for its block and switches recording on.
    """

    def __new__(cls, mode=True):
        self = object.__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        self.mode = mode
        return self

    def __enter__(self):
        self._before = _C._set_inference_mode(bool(self.mode), not self.mode)

    def __exit__(self, *_):
        _C._set_inference_mode(*self._before)

    def _again(self):
        return inference_mode(self.mode)
