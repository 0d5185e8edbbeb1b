"""Settings of the process: warnings, threads, printing, deterministic ops, precision."""

from __future__ import annotations

import importlib
import warnings

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
}
_print_options = dict(_PROFILES["default"])
_settings = {"deterministic": False, "warn_only": False, "warn_always": False}
_said: set[str] = set()


def _once(text):
    """Give a warning once in a process."""
    if text not in _said or _settings["warn_always"]:
        _said.add(text)
        warnings.warn(text, stacklevel=4)


def is_warn_always_enabled() -> bool:
    """Return whether warnings are repeated, as `set_warn_always` set."""
    return _settings["warn_always"]


def set_warn_always(b: bool) -> None:
    """Set whether a warning of this package is given every time instead of once. The filters of Python apply as well.

    Args:
        b: If `True`, give warnings every time.

    Raises:
        RuntimeError: If `b` is not a `bool`.
    """
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _settings["warn_always"] = b


def set_vital(name: str, attr: str, value: str) -> bool:
    """Take note of how a program uses the library. Return whether notes are kept, which is always `False`.

    Args:
        name: What is noted.
        attr: A property of it.
        value: The value of the property.
    """
    return False


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Turn anomaly mode on or off, as `torch.autograd.set_detect_anomaly` does.

    Args:
        enabled: Whether anomaly mode is on.
        check_nan: If `True`, backward raises an error when it computes a NaN.
    """
    _C._set_anomaly_enabled(bool(enabled), bool(check_nan))


def set_num_threads(n: int) -> None:
    """Set the number of threads of ops on the CPU.

    Args:
        n: Number of threads, at least 1.

    Raises:
        TypeError: If `n` is not an integer.
        RuntimeError: If `n` is not positive.

    Example:
        >>> import pytpu as torch
        >>> before = torch.get_num_threads()
        >>> torch.set_num_threads(1)
        >>> torch.get_num_threads()
        1
        >>> torch.set_num_threads(before)
    """
    if not isinstance(n, int):
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _C._set_num_threads(n)


def get_num_threads() -> int:
    """Return the number of threads of ops on the CPU."""
    return _C._num_threads()


def set_num_interop_threads(n: int) -> None:
    """Accept the number of ops that run at the same time. It has no effect.

    Args:
        n: Number of ops, at least 1.

    Raises:
        TypeError: If `n` is not an integer.
        RuntimeError: If `n` is not positive.
    """
    if not isinstance(n, int):
        raise TypeError(f"set_num_interop_threads expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


def get_num_interop_threads() -> int:
    """Return the number of ops that run at the same time on the CPU, which is 1."""
    return 1


def set_flush_denormal(mode: bool) -> bool:
    """Always return `False`: ops on the CPU do not flush denormal numbers to zero. On `tpu` they are always flushed."""
    return False


def set_default_tensor_type(t: type | str) -> None:
    """Set the default dtype by a tensor type. Deprecated: use `set_default_dtype`.

    Args:
        t: Type such as `torch.DoubleTensor`, or its name.

    Raises:
        TypeError: If `t` is not such a type, or not floating point.
    """
    _once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives."
    )
    if isinstance(t, str):
        module, _, name = t.rpartition(".")
        if module != "torch":
            raise TypeError(f"invalid type object: {t}")
        kind: Any = getattr(importlib.import_module("pytpu._legacy"), name, None)
    else:
        kind = t
    dtype = getattr(kind, "dtype", None)
    if not isinstance(dtype, _C.dtype):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _C.set_default_dtype(dtype)


def get_device_module(device: _C.device | str | None = None) -> ModuleType:
    """Return the module of a device type, such as `torch.tpu`.

    Args:
        device: Device, or its name. `None` is the accelerator, or `cpu` without one.

    Raises:
        RuntimeError: If `device` has another type.

    Example:
        >>> import pytpu as torch
        >>> torch.get_device_module("cpu").__name__.rpartition(".")[2]
        'cpu'
    """
    if device is None:
        from ..accelerator import current_accelerator

        name = (current_accelerator() or _C.device("cpu")).type
    elif isinstance(device, (str, _C.device)):
        name = _C.device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    return importlib.import_module(f"pytpu.{name}")


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed. An option that is `None` keeps its value.

    Args:
        precision: Number of digits after the point.
        threshold: Number of elements above which a tensor is shortened.
        edgeitems: Number of elements at each end of a shortened dimension.
        linewidth: Number of columns of a line.
        profile: `"default"`, `"short"` or `"full"`: values of the options above.
        sci_mode: If `True`, print in scientific notation. `None` lets the numbers decide.

    Example:
        >>> import pytpu as torch
        >>> torch.set_printoptions(precision=2)
        >>> torch.tensor([1.23456])
        tensor([1.23])
        >>> torch.set_printoptions(profile="default")
    """
    options = dict(_print_options)
    if profile is not None:
        options.update(_PROFILES.get(profile.lower(), {}))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({name: value for name, value in given.items() if value is not None})
    digits, shown, edge, width = (options[name] for name in given)
    _C._set_print_options(digits, None if shown == float("inf") else int(shown), edge, width, sci_mode)
    _print_options.update(options)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Raise errors for ops that PyTorch does not have in a deterministic form, or warn about them.

    Every op is deterministic here. The functions on PyTorch's list raise errors all the same, so that a program that
    runs here also runs there. On device `tpu` every program is then compiled, instead of running op by op when it is
    new: see `torch.tpu.metrics`.

    Args:
        mode: If `True`, refuse them.
        warn_only: If `True`, give warnings instead of errors.

    Example:
        >>> import pytpu as torch
        >>> torch.use_deterministic_algorithms(True)
        >>> torch.are_deterministic_algorithms_enabled()
        True
        >>> torch.use_deterministic_algorithms(False)
    """
    _settings["deterministic"], _settings["warn_only"] = bool(mode), bool(warn_only)
    _C._set_deterministic(bool(mode), bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """Return the `mode` that `use_deterministic_algorithms` set."""
    return _settings["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return the `warn_only` that `use_deterministic_algorithms` set."""
    return _settings["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Call `use_deterministic_algorithms` with a mode that has a name and a number.

    Args:
        debug_mode: `"default"` or `0`, `"warn"` or `1`, `"error"` or `2`.

    Raises:
        TypeError: If `debug_mode` is neither a `str` nor an `int`.
        RuntimeError: If it has another value.
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    names = ("default", "warn", "error")
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = names.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """Return the number of the mode that `set_deterministic_debug_mode` set."""
    return 0 if not _settings["deterministic"] else 1 if _settings["warn_only"] else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of `float32` matrix products and convolutions on a TPU.

    `"highest"`, the default, has the precision of `float32`. `"high"` has two thirds of its digits, and `"medium"`
    those of `bfloat16`. A TPU takes six, three and one passes. The CPU, and `tpu` on XLA:CPU, always compute in
    `float32`.

    Args:
        precision: `"highest"`, `"high"` or `"medium"`. Another value gives a warning, and changes nothing.

    Example:
        >>> import pytpu as torch
        >>> torch.set_float32_matmul_precision("high")
        >>> torch.get_float32_matmul_precision()
        'high'
        >>> torch.set_float32_matmul_precision("highest")
    """
    from ..backends import _precision

    _precision.set_float32_matmul_precision(precision)


def get_float32_matmul_precision() -> str:
    """Return the precision that `set_float32_matmul_precision` set, at first `"highest"`.

    Raises:
        RuntimeError: If an `fp32_precision` of `torch.backends` contradicts it.
    """
    from ..backends import _precision

    return _precision.get_float32_matmul_precision()
