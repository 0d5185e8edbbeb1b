"""``torch._guards``: questions about a trace. Python code is never traced here."""

from ._absent import absent_class

_WHY = "Python code is never traced here"
TracingContext = absent_class("torch._guards.TracingContext", _WHY)
TracingContext.try_get = staticmethod(lambda: None)
Source = absent_class("torch._guards.Source", _WHY)
Guard = absent_class("torch._guards.Guard", _WHY)
CompileContext = absent_class("torch._guards.CompileContext", _WHY)
CompileContext.current_compile_id = staticmethod(lambda: None)


def active_fake_mode():
    """Return ``None``: nothing is a fake tensor."""
    return None


def detect_fake_mode(inputs=None):
    """Return ``None``: nothing is a fake tensor."""
    return None
