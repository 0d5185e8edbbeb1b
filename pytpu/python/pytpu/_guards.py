"""`torch._guards`: questions about a trace. Python code is never traced here."""

from ._absent import absent_class

_WHY = "Python code is never traced here"
TracingContext = absent_class("torch._guards.TracingContext", _WHY)
TracingContext.try_get = staticmethod(lambda: None)
CompileContext = absent_class("torch._guards.CompileContext", _WHY)
CompileContext.current_compile_id = staticmethod(lambda: None)


def active_fake_mode():
    """Return the innermost `FakeTensorMode` that is active, or `None`."""
    from ._subclasses.fake_tensor import _active

    return _active()


def detect_fake_mode(inputs=None):
    """Return the `FakeTensorMode` that is active, or that of a fake tensor among `inputs`, or `None`."""
    from ._subclasses.fake_tensor import is_fake
    from .utils._pytree import tree_leaves

    found = active_fake_mode()
    if found is not None:
        return found
    return next((x.fake_mode for x in tree_leaves(inputs) if is_fake(x)), None)
