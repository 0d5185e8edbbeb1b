"""`torch._custom_ops`: the older form of `torch.library`."""

from . import library


def custom_op(qualname, func_or_schema=None):
    """Declare an operator: with a schema, or by a function's annotations as a decorator."""
    if isinstance(func_or_schema, str):
        library.define(qualname, func_or_schema)
        return None

    def declare(fn):
        library.define(qualname, library.infer_schema(fn, mutates_args=()))
        return fn

    return declare if func_or_schema is None else declare(func_or_schema)


def impl(qualname, *, device_types=("cpu", "cuda"), func=None):
    """Set the kernel of an operator for devices."""

    def register(fn):
        library.impl(qualname, device_types, fn)
        return fn

    return register if func is None else register(func)


def impl_abstract(qualname, *, func=None):
    """Set the kernel of an operator for tensors on `meta`."""
    return library.register_fake(qualname, func)
