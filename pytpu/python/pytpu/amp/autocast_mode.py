"""Blocks in which products are computed in a dtype of 16 bits, and what needs the range in ``float32``."""

import functools
import warnings

import pytpu as torch
from pytpu import _C

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_KINDS = ("cpu", "tpu")
# Accelerators that are not here: a program that names one goes on in full precision.
_ABSENT = ("cuda", "xpu", "mps", "xla", "hpu", "mtia")


def is_autocast_available(device_type):
    """Whether there is autocast for a device type."""
    return device_type in _KINDS


def is_autocast_enabled(device_type=None):
    """Whether autocast is on in this thread for a device type, ``tpu`` unless one is named."""
    device_type = "tpu" if device_type is None else device_type
    return device_type in _KINDS and _C._autocast_enabled(device_type)


def set_autocast_enabled(device_type, enabled=None):
    """Switches autocast on or off in this thread."""
    if enabled is None:
        device_type, enabled = "tpu", device_type
    if device_type in _ABSENT:
        if enabled:
            raise RuntimeError(f"autocast of device type {device_type} is not here")
        return
    _C._set_autocast_enabled(device_type, enabled)


def get_autocast_dtype(device_type):
    """The dtype that autocast computes products in."""
    if device_type in _ABSENT:
        return torch.float16 if device_type != "xla" else torch.bfloat16
    return _C._autocast_dtype(device_type)


def set_autocast_dtype(device_type, dtype):
    """Sets that dtype, for this thread."""
    if device_type not in _ABSENT:
        _C._set_autocast_dtype(device_type, dtype)


def is_autocast_cpu_enabled():
    """`is_autocast_enabled("cpu")`."""
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype():
    """`get_autocast_dtype("cpu")`."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype():
    """`get_autocast_dtype("cuda")`."""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_enabled(enabled):
    """`set_autocast_enabled("cpu", enabled)`."""
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype):
    """`set_autocast_dtype("cpu", dtype)`."""
    set_autocast_dtype("cpu", dtype)


class autocast:
    """Computes in ``dtype`` where that is safe, within a block or a decorated function.

    Products, convolutions and attention are computed in ``dtype``: ``bfloat16`` unless another is given. Softmax, norms, losses,
    sums and the like are computed in ``float32``, with PyTorch's lists. Backward uses the dtypes of forward, inside of the block
    or outside.

    Args:
        device_type: ``"cpu"`` or ``"tpu"``; one that is not here is warned of, and nothing is cast.
        dtype: ``torch.bfloat16`` or ``torch.float16``.
        enabled: ``False`` for a block in which nothing is cast.
        cache_enabled: Whether casts of parameters are kept until the outermost block ends.
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        device_type = device_type.partition(":")[0]
        if device_type not in _KINDS and device_type not in _ABSENT:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if device_type in _ABSENT and enabled:
            text = (
                f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. Disabling"
            )
            if device_type == "cuda":
                text = "CUDA is not available or torch_xla is imported. Disabling autocast."
            warnings.warn(text, stacklevel=2)
            enabled = False
        if enabled and self.fast_dtype not in (torch.bfloat16, torch.float16):
            name = device_type.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._cache_enabled = _C.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._before = []

    def __enter__(self):
        here = self.device in _KINDS
        self._before.append(
            (_C._autocast_enabled(self.device), _C._autocast_dtype(self.device), _C.is_autocast_cache_enabled())
            if here
            else None
        )
        if here:
            _C._set_autocast_dtype(self.device, self.fast_dtype)
            _C._set_autocast_enabled(self.device, self._enabled)
            _C.set_autocast_cache_enabled(self._cache_enabled)
        _C.autocast_increment_nesting()
        return self

    def __exit__(self, *_):
        _C.autocast_decrement_nesting()
        before = self._before.pop()
        if before is not None:
            enabled, dtype, cache_enabled = before
            _C._set_autocast_enabled(self.device, enabled)
            _C._set_autocast_dtype(self.device, dtype)
            _C.set_autocast_cache_enabled(cache_enabled)
        return False

    def __call__(self, func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            with self:
                return func(*args, **kwargs)

        return wrapped


class Settings:
    """What this thread has set, to be set again for a block."""

    def __init__(self):
        kinds = _KINDS if any(map(_C._autocast_enabled, _KINDS)) else ()
        kept = _C.is_autocast_cache_enabled()
        self._blocks = [autocast(k, _C._autocast_dtype(k), _C._autocast_enabled(k), kept) for k in kinds]

    def __enter__(self):
        for block in self._blocks:
            block.__enter__()

    def __exit__(self, *_):
        for block in reversed(self._blocks):
            block.__exit__()


def _cast(value, device_type, dtype):
    """Floating-point tensors of a device in another dtype, wherever they are in ``value``; those of 64 bits as they are."""
    if isinstance(value, torch.Tensor):
        touched = value.is_floating_point() and value.device.type == device_type and value.dtype != torch.float64
        return value.to(dtype) if touched else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        values = (_cast(v, device_type, dtype) for v in value)
        return type(value)(*values) if hasattr(value, "_fields") else type(value)(values)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """For ``forward`` of a custom ``Function``: keeps what autocast has set for its ``custom_bwd``.

    With ``cast_inputs`` the tensors come in that dtype, and within nothing is cast.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args, **kwargs):
        enabled = is_autocast_enabled(device_type)
        args[0]._dtype = get_autocast_dtype(device_type)
        if cast_inputs is None or not enabled:
            args[0]._fwd_used_autocast = enabled and cast_inputs is None
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        with autocast(device_type=device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorated


def custom_bwd(bwd=None, *, device_type):
    """For ``backward`` of a custom ``Function``: autocast is as it was in its ``forward``."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args, **kwargs):
        with autocast(device_type=device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated
