"""`torch._assert` and `torch._check`: assertions that PyTorch's tracers understand. Here they only check."""

from . import _C


def _assert(condition, message):
    """Raise `AssertionError` with the message unless the condition is true."""
    if type(condition) is not _C.Tensor and _C._has_torch_function((condition,)):
        return _C._call_torch_function(_assert, (condition,), (condition, message), {})
    if not condition:
        raise AssertionError(message)


def _text(message, default):
    if message is None:
        return default
    return str(message() if callable(message) else message)


def _check_with(error_type, cond, message):
    """Raise an error of a type unless the condition is true. `message` is a text, or a function that makes it."""
    if isinstance(cond, _C.Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert "
            "that all elements are true."
        )
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        default = (
            "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
            "enhancement request to PyTorch.)"
        )
        raise error_type(_text(message, default))


def _check(cond, message=None):
    """Raise `RuntimeError` unless the condition is true."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond, message=None):
    """Raise `IndexError` unless the condition is true."""
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    """Raise `ValueError` unless the condition is true."""
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    """Raise `TypeError` unless the condition is true."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    """Raise `NotImplementedError` unless the condition is true."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """Raise `RuntimeError` unless `i` is a size: not negative, and at most `max`."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all(cond, message=None):
    """Raise `RuntimeError` unless all elements are true."""
    if not isinstance(cond, _C.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != _C.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check(bool(cond.all().item()), message)


def _assert_async(input, assert_msg=""):
    """Raise `RuntimeError` if the only element is zero. The value is read at once."""
    if input.numel() != 1:
        kind = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    if not bool(input.detach().item()):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")
