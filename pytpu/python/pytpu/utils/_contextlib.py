"""`torch.utils._contextlib`: context managers that are decorators as well."""

import functools
import inspect

__all__ = []


def context_decorator(ctx, func):
    """Wrap a function so that each call runs in `with ctx():`. Generators run each step in it."""
    make = ctx if callable(ctx) and not hasattr(type(ctx), "__enter__") else (lambda: ctx)
    if isinstance(func, type):
        raise RuntimeError(
            "Cannot decorate classes; it is ambiguous whether or not only the constructor or all methods should have "
            "the context manager applied; additionally, decorating a class at definition-site will prevent use of the "
            "identifier as a conventional type."
        )
    if inspect.isgeneratorfunction(func):

        @functools.wraps(func)
        def generate(*args, **kwargs):
            steps = func(*args, **kwargs)
            try:
                with make():
                    value = next(steps)
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        with make():
                            steps.close()
                        raise
                    except BaseException as error:
                        with make():
                            value = steps.throw(error)
                    else:
                        with make():
                            value = steps.send(sent)
            except StopIteration as end:
                return end.value

        return generate

    @functools.wraps(func)
    def call(*args, **kwargs):
        with make():
            return func(*args, **kwargs)

    return call


class _DecoratorContextManager:
    """A context manager that can decorate functions. Each call gets `self.clone()`."""

    def __call__(self, orig_func):
        if inspect.isclass(orig_func):
            import warnings

            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly "
                "decorate the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
            orig_func.__init__ = context_decorator(self.clone, orig_func.__init__)
            return orig_func
        return context_decorator(self.clone, orig_func)

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, exc_type, exc_value, traceback):
        raise NotImplementedError

    def clone(self):
        """Return a new context manager, for the next call."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A block without arguments, which may decorate a function without being called."""

    def __new__(cls, orig_func=None):
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
