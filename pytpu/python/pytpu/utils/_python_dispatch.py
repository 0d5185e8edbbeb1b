"""``torch.utils._python_dispatch``: modes below autograd. There are none here. `torch.overrides` has the modes above
it.
"""

import contextlib

from .._absent import absent_class

TorchDispatchMode = absent_class(
    "torch.utils._python_dispatch.TorchDispatchMode", "there are no modes below autograd; see TorchFunctionMode"
)
BaseTorchDispatchMode = absent_class(
    "torch.utils._python_dispatch.BaseTorchDispatchMode", "there are no modes below autograd", TorchDispatchMode
)


def is_traceable_wrapper_subclass(t):
    """Return whether a tensor is a wrapper with methods that flatten it."""
    from .. import _C

    return (
        isinstance(t, _C.Tensor)
        and type(t) is not _C.Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def is_traceable_wrapper_subclass_type(t):
    """The same of a class."""
    from .. import _C

    return (
        issubclass(t, _C.Tensor)
        and t is not _C.Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def is_in_torch_dispatch_mode(include_infra_modes=True):
    """Return ``False``: there are no such modes."""
    return False


def _get_current_dispatch_mode():
    """Return ``None``: there is no such mode."""
    return None


def _get_current_dispatch_mode_stack():
    """Return the empty list: there are no such modes."""
    return []


def _disable_current_modes():
    """Return a block without modes."""
    return contextlib.nullcontext([])


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """Make a copy of a wrapper, with a callback's result in place of each of the tensors that it wraps."""
    names, context = t.__tensor_flatten__()
    parts = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(parts, context, size, stride)


def return_and_correct_aliasing(func, args, kwargs, out):
    """Return the result, whose aliases are right already."""
    return out
