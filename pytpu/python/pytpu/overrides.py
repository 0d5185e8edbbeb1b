"""Functions for Python code whose arguments' types may take calls over."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading

from . import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterable
    from typing import Any


#: The code of the function whose body a mode calls, by thread.
_bodies = threading.local()


def _call_body(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function that `func` wraps. If it asks whether a mode takes the call over, the answer is no."""
    body = func
    while hasattr(body, "__wrapped__"):
        body = body.__wrapped__
    before = getattr(_bodies, "code", None)
    _bodies.code = getattr(body, "__code__", None)
    try:
        return func.__wrapped__(*args, **kwargs)
    finally:
        _bodies.code = before


def _is_offered(caller: types.FrameType) -> bool:
    return caller.f_code is not getattr(_bodies, "code", None)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether the type of one of the arguments takes calls over."""
    return _C._has_torch_function(tuple(relevant_args)) and _is_offered(sys._getframe(1))


def has_torch_function_unary(arg: Any) -> bool:
    """The same for one argument."""
    return _C._has_torch_function((arg,)) and _is_offered(sys._getframe(1))


def has_torch_function_variadic(*args: Any) -> bool:
    """Return whether one of the arguments, given one by one, takes calls over."""
    return _C._has_torch_function(args) and _is_offered(sys._getframe(1))


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Call the override of the first type that takes the call over."""
    return _C._call_torch_function(public_api, tuple(relevant_args), args, kwargs)


def is_tensor_like(inp: Any) -> bool:
    """Return whether this is a tensor, or of a type that takes calls over."""
    return isinstance(inp, _C.Tensor) or hasattr(type(inp), "__torch_function__")


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function: `dispatcher(*args, **kwargs)` returns the arguments whose types may take the call over."""

    def decorate(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            operands = dispatcher(*args, **kwargs)
            if _C._has_torch_function(tuple(operands)):
                return handle_torch_function(wrapped, operands, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


class TorchFunctionMode:
    """A mode that gets the calls in a block, in the thread that entered it.

    Calls are those of functions, operators, methods of ops and similar. `__torch_function__(func, types, args, kwargs)`
    of a subclass is called instead. Within it the mode is off.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _C._push_torch_function_mode(self)
        return self

    def __exit__(self, *error):
        _C._pop_torch_function_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        """The same as making one."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that only calls the function."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_function_mode():
    """Return the innermost mode of the thread, or `None`."""
    modes = _C._torch_function_modes()
    return modes[-1] if modes else None


def _get_current_function_mode_stack():
    """Return all modes of the thread, with the innermost last."""
    return _C._torch_function_modes()


def _overridable(function):
    """Return the function with a check whether types of its arguments, also in lists, take the call over."""

    @functools.wraps(function)
    def overridable(*args, **kwargs):
        operands = _C._overriding(args, kwargs)
        if operands is None:
            return function(*args, **kwargs)
        return _C._call_torch_function(overridable, operands, args, kwargs)

    return overridable


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """Context manager in which overrides may call themselves. They may always do so here."""
    yield


# These functions take no tensor as an operand, so nothing overrides them.
_IGNORED = (
    "arange as_tensor asarray bartlett_window blackman_window can_cast compile cudnn_affine_grid_generator "
    "default_generator device dtype empty empty_permuted empty_quantized empty_strided eye finfo from_dlpack "
    "from_file from_numpy frombuffer full fork get_default_device get_default_dtype get_device_module "
    "get_num_interop_threads get_num_threads get_rng_state hamming_window hann_window iinfo initial_seed "
    "is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled "
    "is_deterministic_algorithms_warn_only_enabled is_grad_enabled is_inference_mode_enabled is_storage is_tensor "
    "is_warn_always_enabled kaiser_window linspace load logspace manual_seed normal ones promote_types rand randint "
    "randn randperm range save scalar_tensor seed set_anomaly_enabled set_default_device set_default_dtype "
    "set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal "
    "set_num_interop_threads set_num_threads set_printoptions set_rng_state set_warn_always tensor tril_indices "
    "triu_indices typename use_deterministic_algorithms vitals_enabled wait zeros "
    "are_deterministic_algorithms_enabled get_deterministic_debug_mode get_float32_matmul_precision "
    "autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache get_autocast_dtype "
    "is_autocast_available is_autocast_enabled set_autocast_cache_enabled set_autocast_dtype set_autocast_enabled "
    "install cond sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum is_distributed"
).split()  # fmt: skip


@functools.cache
def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return the set of public functions that cannot be overridden."""
    import pytpu as torch

    names = [getattr(torch, name, None) for name in _IGNORED]
    F = torch.nn.functional
    names += [
        getattr(F, name, None)
        for name in ("assert_int_or_pair", "has_torch_function", "handle_torch_function", "boolean_dispatch")
    ]
    T = _C.Tensor
    names += [
        getattr(T, name, None)
        for name in ("__new__", "__init__", "__torch_function__", "__class__", "__subclasshook__", "new")
    ]
    return {f for f in names if f is not None}


@functools.cache
def _overridable_by_space():
    import types

    import pytpu as torch

    functions = (types.FunctionType, types.BuiltinFunctionType)
    ignored, index, found = get_ignored_functions(), {}, {}

    def add(space, path, function):
        try:
            index.setdefault(function, path)
            if function in ignored:
                return
        except TypeError:
            return
        found.setdefault(space, []).append(function)

    spaces = {
        "torch": torch, "torch.functional": torch.functional, "torch.nn.functional": torch.nn.functional,
        "torch.nn.init": torch.nn.init,
        "torch.linalg": torch.linalg, "torch.fft": torch.fft, "torch.special": torch.special,
    }  # fmt: skip
    for path, space in spaces.items():
        for name in sorted(set(vars(space))):
            value = getattr(space, name)
            of_torch = (getattr(value, "__module__", None) or "").startswith(("torch", "pytpu"))
            if name.startswith("_") or not isinstance(value, functions) or not of_torch:
                continue
            add(space, f"{path}.{name}", value)
    for cls in reversed(_C.Tensor.__mro__[:-1]):
        for name, value in vars(cls).items():
            if name in ("__weakref__", "__dict__", "__module__", "__doc__", "__new__", "__init__", "__hash__"):
                continue
            if callable(value) and not isinstance(value, (classmethod, staticmethod, type)):
                add(_C.Tensor, f"torch.Tensor.{name}", value)
            elif (
                hasattr(type(value), "__get__")
                and not callable(value)
                and not isinstance(value, (classmethod, staticmethod))
            ):
                add(value, f"torch.Tensor.{name}.__get__", value.__get__)
    return found, index


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions that can be overridden: lists, by the module or class that has them."""
    return {space: list(functions) for space, functions in _overridable_by_space()[0].items()}


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return a dictionary from each function that can be overridden to one with the same parameters that returns -1."""

    def override(*args, **kwargs):
        return -1

    return {function: override for functions in _overridable_by_space()[0].values() for function in functions}


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return the full name of a function that can be overridden, such as `torch.add`, or `None` for any other."""
    import pytpu as torch

    if isinstance(f, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(f)
    try:
        return _overridable_by_space()[1].get(f)
    except TypeError:
        return None


@functools.cache
def _tensor_methods():
    return {
        f
        for space, functions in get_overridable_functions().items()
        if not hasattr(space, "__file__")
        for f in functions
    }


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether a function is a method of `torch.Tensor`, or the getter of one of its attributes."""
    return func in _tensor_methods() or getattr(func, "__name__", None) == "__get__"
