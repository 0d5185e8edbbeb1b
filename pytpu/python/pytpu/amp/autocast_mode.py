"""`autocast`: matrix products in a 16-bit dtype, and ops that need the range in `float32`."""

from __future__ import annotations

import functools
import warnings

import pytpu as torch
from pytpu import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal


__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_KINDS = ("cpu", "tpu")
# Accelerators that this build does not have. A program that names one runs in full precision.
_ABSENT = ("cuda", "xpu", "mps", "xla", "hpu", "mtia")


def is_autocast_available(device_type: str) -> bool:
    """Return whether autocast is available for a device type.

    Args:
        device_type: Device type, such as `"cpu"` or `"tpu"`.
    """
    return device_type in _KINDS


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Return whether autocast is on in this thread.

    Args:
        device_type: Device type. `None` is `"tpu"`.

    Example:
        >>> import pytpu as torch
        >>> with torch.autocast("cpu"):
        ...     print(torch.is_autocast_enabled("cpu"))
        True
    """
    device_type = "tpu" if device_type is None else device_type
    return device_type in _KINDS and _C._autocast_enabled(device_type)


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Turn autocast on or off in this thread.

    Args:
        device_type: Device type. If it is the only argument, it is the value of `enabled` for `"tpu"`.
        enabled: Whether autocast is on.

    Raises:
        RuntimeError: If autocast is turned on for a device type that this build does not have.
    """
    kind = "tpu" if enabled is None else str(device_type)
    value = bool(device_type) if enabled is None else enabled
    if kind in _ABSENT:
        if value:
            raise RuntimeError(f"autocast of device type {kind} is not available")
        return
    _C._set_autocast_enabled(kind, value)


def get_autocast_dtype(device_type: str) -> torch.dtype:
    """Return the dtype in which autocast computes matrix products.

    Args:
        device_type: Device type.

    Example:
        >>> import pytpu as torch
        >>> torch.get_autocast_dtype("cpu")
        torch.bfloat16
    """
    if device_type in _ABSENT:
        return torch.float16 if device_type != "xla" else torch.bfloat16
    return _C._autocast_dtype(device_type)


def set_autocast_dtype(device_type: str, dtype: torch.dtype) -> None:
    """Set the dtype in which autocast computes matrix products, in this thread.

    Args:
        device_type: Device type.
        dtype: `torch.bfloat16` or `torch.float16`.
    """
    if device_type not in _ABSENT:
        _C._set_autocast_dtype(device_type, dtype)


def is_autocast_cpu_enabled() -> bool:
    """Return `is_autocast_enabled("cpu")`."""
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> torch.dtype:
    """Return `get_autocast_dtype("cpu")`."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> torch.dtype:
    """Return `get_autocast_dtype("cuda")`."""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Call `set_autocast_enabled("cpu", enabled)`."""
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: torch.dtype) -> None:
    """Call `set_autocast_dtype("cpu", dtype)`."""
    set_autocast_dtype("cpu", dtype)


class autocast:
    """Context manager, or decorator, that computes in a 16-bit dtype where that is safe.

    Matrix products, convolutions and attention are computed in `dtype`. Softmax, norms, losses, sums and similar ops
    are computed in `float32`. The lists are those of PyTorch. Backward uses the dtypes of forward, inside of the block
    or outside.

    Args:
        device_type: `"cpu"` or `"tpu"`. Other types give a warning, and nothing is cast.
        dtype: `torch.bfloat16` or `torch.float16`. `None` is the dtype that `set_autocast_dtype` set, at first
            `bfloat16`.
        enabled: If `False`, nothing is cast in the block.
        cache_enabled: If `True`, keep casts of parameters until the outermost block ends. `None` is the current
            setting.

    Raises:
        ValueError: If `device_type` is not a `str`.
        RuntimeError: If `device_type` is unknown.

    Example:
        >>> import pytpu as torch
        >>> a = torch.ones(2, 2)
        >>> with torch.autocast("cpu"):
        ...     product, total = a @ a, a.sum()
        >>> product.dtype, total.dtype
        (torch.bfloat16, torch.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
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
        self._before: list[Any] = []

    def __enter__(self) -> autocast:
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

    def __exit__(self, *_: Any) -> Literal[False]:
        _C.autocast_decrement_nesting()
        before = self._before.pop()
        if before is not None:
            enabled, dtype, cache_enabled = before
            _C._set_autocast_enabled(self.device, enabled)
            _C._set_autocast_dtype(self.device, dtype)
            _C.set_autocast_cache_enabled(cache_enabled)
        return False

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            with self:
                return func(*args, **kwargs)

        return wrapped


class Settings:
    """The autocast settings of this thread, to be set again for a block."""

    def __init__(self) -> None:
        kinds = _KINDS if any(map(_C._autocast_enabled, _KINDS)) else ()
        kept = _C.is_autocast_cache_enabled()
        self._blocks = [autocast(k, _C._autocast_dtype(k), _C._autocast_enabled(k), kept) for k in kinds]

    def __enter__(self) -> None:
        for block in self._blocks:
            block.__enter__()

    def __exit__(self, *_: Any) -> None:
        for block in reversed(self._blocks):
            block.__exit__()


def _cast(value, device_type, dtype):
    """Cast the floating-point tensors of a device within `value`, except those of 64 bits."""
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


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: torch.dtype | None = None
) -> Callable[..., Any]:
    """Decorate the `forward` of a custom `Function`: keep the autocast state for `custom_bwd`.

    Args:
        fwd: The `forward`. Without it, return a decorator.
        device_type: Device type of the autocast state.
        cast_inputs: Dtype that floating-point tensors are cast to, if autocast is on. `forward` then runs without
            autocast. `None` leaves tensors and autocast as they are.

    Raises:
        ValueError: If `device_type` is not a `str`.

    Example:
        >>> import pytpu as torch
        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @torch.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> with torch.autocast("cpu"):
        ...     print(Double.apply(torch.ones(1, dtype=torch.bfloat16)).dtype)
        torch.float32
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


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate the `backward` of a custom `Function`: run it with the autocast state of its `forward`.

    Args:
        bwd: The `backward`. Without it, return a decorator.
        device_type: Device type of the autocast state.

    Raises:
        ValueError: If `device_type` is not a `str`.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args, **kwargs):
        with autocast(device_type=device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated


def _enter_autocast(*vals: Any) -> Any:
    """Enter `autocast` with these arguments, for programs that have the block as two calls."""
    mode = autocast(*vals)
    mode.__enter__()
    return mode


def _exit_autocast(mode: Any) -> None:
    """Leave the block that `_enter_autocast` entered."""
    mode.__exit__(None, None, None)
