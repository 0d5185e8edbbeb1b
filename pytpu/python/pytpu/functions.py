"""Functions of the `torch` module that are not in the op table."""

from __future__ import annotations

import functools

from . import _C
from ._functions.creation import asarray, scalar_tensor
from ._functions.predicates import (
    get_device,
    is_complex,
    is_conj,
    is_distributed,
    is_floating_point,
    is_inference,
    is_inference_mode_enabled,
    is_neg,
    is_nonzero,
    is_same_size,
    is_signed,
    is_storage,
    numel,
    typename,
)
from ._functions.products import cdist, chain_matmul, dist, einsum, lu, norm, norm_except_dim, tensordot
from ._functions.search import histogramdd, nonzero, unique, unique_consecutive
from ._functions.settings import (
    _once,
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    get_device_module,
    get_float32_matmul_precision,
    get_num_interop_threads,
    get_num_threads,
    is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled,
    set_anomaly_enabled,
    set_default_tensor_type,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_flush_denormal,
    set_num_interop_threads,
    set_num_threads,
    set_printoptions,
    set_vital,
    set_warn_always,
    use_deterministic_algorithms,
)
from ._functions.shapes import (
    as_strided_,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    combinations,
    detach_,
    meshgrid,
    resize_as_,
    row_stack,
    split,
    unravel_index,
    view_as_complex_copy,
    view_as_real_copy,
)
from ._tensor import overridable_method as _overridable_method

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytpu import Tensor


__all__ = [
    "as_strided_",
    "cdist",
    "detach_",
    "resize_as_",
    "is_same_size",
    "tensordot",
    "asarray",
    "compile",
    "get_device_module",
    "get_num_interop_threads",
    "get_num_threads",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_inference",
    "is_inference_mode_enabled",
    "is_neg",
    "is_nonzero",
    "is_signed",
    "is_storage",
    "get_device",
    "set_anomaly_enabled",
    "is_warn_always_enabled",
    "set_vital",
    "set_warn_always",
    "numel",
    "set_default_tensor_type",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "typename",
    "fill_",
    "zero_",
    "use_deterministic_algorithms",
    "are_deterministic_algorithms_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "get_deterministic_debug_mode",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "get_float32_matmul_precision",
    "broadcast_shapes",
    "split",
    "scalar_tensor",
    "block_diag",
    "cartesian_prod",
    "combinations",
    "dist",
    "row_stack",
    "chain_matmul",
    "einsum",
    "histogramdd",
    "unravel_index",
    "cond",
    "is_distributed",
    "norm_except_dim",
    "view_as_complex_copy",
    "view_as_real_copy",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_tensors",
    "lu",
    "meshgrid",
    "nonzero",
    "norm",
    "unique",
    "unique_consecutive",
]


def _polygamma(self, n):
    """Return `torch.polygamma(n, self)`."""
    return _C._ops.polygamma(n, self)


def _polygamma_(self, n):
    """Write `torch.polygamma(n, self)` to the tensor."""
    # The gradient reads the old elements.
    return self.copy_(_C._ops.polygamma(n, self.clone()))


fill_, zero_ = _C._ops.fill_, _C._ops.zero_

for _name, _method in (("polygamma", _polygamma), ("polygamma_", _polygamma_)):
    setattr(_C.Tensor, _name, _overridable_method(_method, _name))
del _name, _method


_COMPILE_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
# Backends that run in the usual way: no graph is made for them.
_USUAL = frozenset(("inductor", "cudagraphs", "onnxrt", "openxla", "tpu", "tvm"))


_NO_BUCKETS = "sizes are part of each compiled program. Pad inputs to a few sizes instead"
_OPTIONS_WITHOUT_EFFECT = {
    "bounded_dynamism": _NO_BUCKETS,
    "num_dynamic_buckets": _NO_BUCKETS,
    "bucket_size": _NO_BUCKETS,
    "debug_callback": "there is no graph of Python code to call it with",
}


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    dynamic_shapes: Any = None,
) -> Callable[..., Any]:
    """Return a function or module whose calls are compiled on `tpu`.

    Ops are recorded as they run, so nothing is traced before, and no Python code is refused. Where gradients are
    disabled, the recorded ops are cut before and after each call, so that a call is one program. Where they are
    enabled, nothing is cut: forward, backward and the step of the optimizer are compiled together.
    `torch.compiler.is_compiling()` is `True` within the call.

    Args:
        model: Function or module. Without it, return a decorator.
        fullgraph: Whether a backend must get one graph. Where the function reads a value, an error is raised instead
            of a second graph. The default backend needs no graph.
        dynamic: Accepted for compatibility.
        backend: Name of a backend, or a function of a `torch.fx.GraphModule` and its inputs that returns what is called
            from then on. The default, `"inductor"`, makes no graph. See `torch.compiler.list_backends`.
        mode: Name of a mode of PyTorch. All modes do the same. A function as backend gets it, unless it is
            `"default"`.
        options: A function as backend gets them. A warning says so of options that change results or programs in
            PyTorch or torch_tpu.
        name: A function as backend gets it.
        disable: If `True`, return `model` itself.
        recompile_limit: How many graphs a place of the function may have. The default is
            `torch._dynamo.config.recompile_limit`.
        isolate_recompiles: Accepted for compatibility.
        dynamic_shapes: Accepted for compatibility.

    Returns:
        A function, or a module, that is called as `model`.

    Raises:
        RuntimeError: If both `mode` and `options` are given, or a mode is unknown.
        torch._dynamo.exc.InvalidBackend: If a backend is unknown.

    Example:
        >>> import pytpu as torch
        >>> @torch.compile
        ... def f(x):
        ...     return x.sin() + 1
        >>> f(torch.zeros(2))
        tensor([1., 1.])
    """
    from ._compiled import OptimizedModule, _ByBackend, around

    if backend is None:
        from .compiler import get_default_backend

        backend = get_default_backend()
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if backend == "inductor" and mode is not None and mode not in _COMPILE_MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_COMPILE_MODES)}")
    found: Callable[..., Any] | None
    if not callable(backend) and backend not in _USUAL:
        from ._dynamo.backends.registry import lookup_backend

        found = lookup_backend(backend)
    else:
        found = None if isinstance(backend, str) else backend
    if dynamic is not None and not isinstance(dynamic, bool):
        raise AssertionError(f"Expected enable to be a bool, got {type(dynamic)}")
    if model is not None and not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if model is None:
        return lambda m: compile(
            m,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            name=name,
            disable=disable,
            recompile_limit=recompile_limit,
        )
    if disable:
        return model
    if found is not None:
        given: dict[str, Any] = {"options": options} if options else {}
        if mode is not None and mode != "default":
            given["mode"] = mode
        if name:
            given["name"] = name
        title = backend if isinstance(backend, str) else getattr(backend, "__name__", str(backend))
        by = _ByBackend(functools.partial(found, **given) if given else found, title, fullgraph, recompile_limit)
        return OptimizedModule(model, by=by) if hasattr(model, "forward") else by(model)
    for option in options or ():
        if option in _OPTIONS_WITHOUT_EFFECT:
            _once(f"torch.compile: the option {option!r} has no effect: {_OPTIONS_WITHOUT_EFFECT[option]}.")
    return OptimizedModule(model) if hasattr(model, "forward") else around(model)


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """Call `true_fn(*operands)` or `false_fn(*operands)`.

    Args:
        pred: A `bool`, or a tensor with one element, that chooses the function.
        true_fn: Function for a true `pred`.
        false_fn: Function for a false `pred`.
        operands: Arguments of the function.

    Raises:
        RuntimeError: If `pred` is a tensor with another number of elements.

    Example:
        >>> import pytpu as torch
        >>> torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(1),))
        tensor([0.])
    """
    if isinstance(pred, _C.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if isinstance(pred, _C.Tensor):
        dispatch_modes: Any = _C
        for mode in reversed(dispatch_modes._torch_dispatch_modes()):
            record = getattr(mode, "record_choice", None)
            if record is not None:
                return record(pred, true_fn, false_fn, operands)
    return (true_fn if pred else false_fn)(*operands)
