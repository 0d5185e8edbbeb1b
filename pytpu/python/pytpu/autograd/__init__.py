"""Automatic differentiation."""

from __future__ import annotations

from .. import _C
from .._function_names import keep_functions
from . import anomaly_mode, function, grad_mode, graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function, NestedIOFunction
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .variable import Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pytpu import Tensor

    from . import functional as functional, profiler as profiler
    from .gradcheck import gradcheck, gradgradcheck


# `gradcheck` is a module and a function.
keep_functions(__name__)

__all__ = [
    "Function",
    "NestedIOFunction",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]


def __getattr__(name):
    # Imported on first use: a script that trains needs none of these.
    import importlib

    if name in ("gradcheck", "gradgradcheck"):
        module = importlib.import_module(f"{__package__}.gradcheck")
        # The functions take the place of the module of that name.
        globals().update(gradcheck=module.gradcheck, gradgradcheck=module.gradgradcheck)
        return globals()[name]
    if name == "DeviceType":
        return importlib.import_module(f"{__package__.rpartition('.')[0]}.profiler").DeviceType
    if name in ("forward_ad", "functional", "profiler", "variable"):
        return importlib.import_module(f"{__package__}.{name}")
    raise AttributeError(f"module 'torch.autograd' has no attribute '{name}'")


def _tuple(x):
    return (x,) if isinstance(x, (_C.Tensor, graph.GradientEdge)) else tuple(x)


def backward(
    tensors: Tensor | graph.GradientEdge | Sequence[Tensor | graph.GradientEdge],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: Tensor | graph.GradientEdge | Sequence[Tensor | graph.GradientEdge] | None = None,
) -> None:
    """Compute the gradients of `tensors` with respect to the leaves of their graph, and add them to `grad`.

    Args:
        tensors: Tensors to differentiate.
        grad_tensors: Gradient of each tensor, with its shape: the vector of a vector-Jacobian product. `None` is 1 for
            a tensor with one element.
        retain_graph: If `False`, free what the graph has saved. `None` is the value of `create_graph`.
        create_graph: If `True`, record the gradients themselves, so that they can be differentiated.
        grad_variables: Deprecated name of `grad_tensors`.
        inputs: Tensors whose `grad` is computed. `None` is all leaves.

    Raises:
        RuntimeError: If there is no tensor, the numbers of tensors and gradients differ, a gradient is missing for a
            tensor with several elements, or the graph has been freed.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> torch.autograd.backward(x**2, torch.tensor([1.0, 10.0]))
        >>> x.grad
        tensor([ 2., 40.])
    """
    if grad_variables is not None:
        import warnings

        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use "
                "`grad_tensors`."
            )
        grad_tensors = grad_variables
    outputs = _tuple(tensors)
    if not outputs:
        raise RuntimeError("'tensors' argument to `backward()` cannot be empty.")
    if _C._has_torch_function(outputs):
        options = {
            "grad_tensors": grad_tensors,
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "inputs": inputs,
        }
        return _C._call_torch_function(backward, outputs, (outputs,), options)
    grads = (None,) * len(outputs) if grad_tensors is None else _tuple(grad_tensors)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    inputs = None if inputs is None else _tuple(inputs)
    if inputs == ():
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    return _C._backward(outputs, grads, retain_graph, create_graph, inputs)


def grad(
    outputs: Tensor | graph.GradientEdge | Sequence[Tensor | graph.GradientEdge],
    inputs: Tensor | graph.GradientEdge | Sequence[Tensor | graph.GradientEdge],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Return the gradients of the sum of `outputs` with respect to `inputs`.

    Args:
        outputs: Tensors to differentiate.
        inputs: Tensors to differentiate by.
        grad_outputs: Gradient of each output, with its shape. `None` is 1 for an output with one element.
        retain_graph: If `False`, free what the graph has saved. `None` is the value of `create_graph`.
        create_graph: If `True`, record the gradients themselves, so that they can be differentiated.
        only_inputs: Accepted for compatibility.
        allow_unused: If `True`, return `None` for an input that the outputs do not depend on, instead of raising.
        is_grads_batched: If `True`, dimension 0 of each gradient in `grad_outputs` counts passes, and dimension 0 of
            each result too.
        materialize_grads: If `True`, return zeros for an input that the outputs do not depend on.

    Returns:
        A tuple with one gradient for each input, of its shape.

    Raises:
        RuntimeError: If an input does not require gradients, the outputs do not depend on it, or the graph has been
            freed.
        ValueError: If `materialize_grads` is combined with `allow_unused=False`.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> (first,) = torch.autograd.grad(x**3, x, create_graph=True)
        >>> torch.autograd.grad(first, x)
        (tensor(18.),)
    """
    operands = _C._overriding((outputs, inputs), {})
    if operands is not None:
        return _C._call_torch_function(
            grad,
            operands,
            (outputs, inputs),
            {
                "grad_outputs": grad_outputs,
                "retain_graph": retain_graph,
                "create_graph": create_graph,
                "only_inputs": only_inputs,
                "allow_unused": allow_unused,
                "is_grads_batched": is_grads_batched,
                "materialize_grads": materialize_grads,
            },
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    if outputs and not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    grads = (None,) * len(outputs) if grad_outputs is None else _tuple(grad_outputs)
    for x in inputs:
        if isinstance(x, _C.Tensor) and not x.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    allow = bool(allow_unused) or materialize_grads
    if is_grads_batched:
        found = _batch(outputs, inputs, grads, retain_graph, create_graph, allow)
    else:
        found = _C._grad(outputs, inputs, grads, retain_graph, create_graph, allow)
    if materialize_grads:
        if any(g is None and isinstance(x, graph.GradientEdge) for g, x in zip(found, inputs)):
            raise RuntimeError(
                "materialize_grads cannot be used when the given input is a GradientEdge that has no gradient"
            )
        found = tuple(
            _C._ops.zeros_like(x).requires_grad_(create_graph) if g is None else g for g, x in zip(found, inputs)
        )
    return found


def _batch(outputs, inputs, grads, retain_graph, create_graph, allow):
    """Run one pass for each of the gradients, and stack the results."""
    sizes = {g.shape[0] if g.dim() else None for g in grads if g is not None}
    if len(sizes) != 1 or None in sizes:
        raise RuntimeError(
            "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension, "
            "which "
            "all of them must have, with the same size."
        )
    for i, (y, g) in enumerate(zip(outputs, grads)):
        if g is not None and isinstance(y, _C.Tensor) and g.shape[1:] != y.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. "
                f"The sizes of the remaining dimensions are expected to match the shape of corresponding output, but a "
                f"mismatch was detected: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of "
                f"{y.shape}."
            )
    (size,) = sizes
    keep = create_graph if retain_graph is None else retain_graph
    rows = []
    for i in range(size):
        at = tuple(None if g is None else g[i] for g in grads)
        rows.append(_C._grad(outputs, inputs, at, keep or i + 1 < size, create_graph, allow))
    if not rows:
        return tuple(_C._ops.zeros((0, *x.shape), dtype=x.dtype, device=x.device) for x in inputs)
    return tuple(None if column[0] is None else _C._ops.stack(list(column)) for column in zip(*rows))


def is_multithreading_enabled() -> bool:
    """Return what `set_multithreading_enabled` set, `True` at first.

    It has no effect: a backward pass runs on one thread.
    """
    return _is_multithreading_enabled


_is_multithreading_enabled = True


class set_multithreading_enabled:
    """Set a flag that PyTorch has for backward passes on several threads.

    It has no effect: a backward pass runs on the thread that asks for it. As a context manager, it restores the flag.

    Args:
        mode: Value of the flag.
    """

    def __init__(self, mode: bool) -> None:
        global _is_multithreading_enabled
        self.prev, self.mode = _is_multithreading_enabled, mode
        _is_multithreading_enabled = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        global _is_multithreading_enabled
        _is_multithreading_enabled = self.prev

    def clone(self) -> set_multithreading_enabled:
        """Return a new context manager with the same mode."""
        return type(self)(self.mode)


# PyTorch has it in this module too.
vars(grad_mode)["set_multithreading_enabled"] = set_multithreading_enabled


def _is_checkpoint_valid():
    """Return `True`: reentrant checkpoints may call `backward` here."""
    return True
