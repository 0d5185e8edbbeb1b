"""``torch._subclasses.fake_tensor``: nothing is a fake tensor here."""

from .._absent import absent_class

_WHY = "tensors without data are those of device meta here"
FakeTensor = absent_class("torch._subclasses.fake_tensor.FakeTensor", _WHY)
FakeTensorMode = absent_class("torch._subclasses.fake_tensor.FakeTensorMode", _WHY)


class UnsupportedFakeTensorException(RuntimeError):
    """An error of tracers for an unknown op. Never raised here."""


def is_fake(x):
    """Return ``False``: nothing is a fake tensor."""
    return False


def unset_fake_temporarily():
    """Return a block in which nothing is a fake tensor."""
    import contextlib

    return contextlib.nullcontext()


def _is_tensor_constructor(func):
    """Return whether an operator makes a tensor of none: its first schema has no tensor among its arguments."""
    from ..ops import OpOverload

    if not isinstance(func, OpOverload):
        raise AssertionError(f"func must be an OpOverload, got {type(func)}")
    schema = next((s for s in func.overloadpacket._schemas if s.startswith(func.__name__ + "(")), "")
    schema = schema or next((s for s in func.overloadpacket._schemas), "")
    arguments, _, returned = schema.rpartition("->")
    return "Tensor" not in arguments and returned.strip() == "Tensor"
