"""Automatic differentiation."""

from .. import _C
from . import function, grad_mode, graph
from .function import Function
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

Variable = _C.Tensor

__all__ = [
    "Function", "Variable", "backward", "enable_grad", "grad", "inference_mode", "no_grad", "set_detect_anomaly",
    "set_grad_enabled", "function", "grad_mode", "graph",
]


def _tuple(x):
    return (x,) if isinstance(x, _C.Tensor) else tuple(x)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Computes gradients of ``tensors`` with respect to the leaves of their graph and adds them to their ``grad``."""
    tensors = _tuple(tensors)
    if not tensors:
        raise RuntimeError("'tensors' argument to `backward()` cannot be empty.")
    grads = (None,) * len(tensors) if grad_tensors is None else _tuple(grad_tensors)
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    _C._backward(tensors, grads, retain_graph, create_graph, None if inputs is None else _tuple(inputs))


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """Gradients of the sum of ``outputs`` with respect to ``inputs``, as a tuple."""
    if is_grads_batched:
        raise NotImplementedError("is_grads_batched is not supported")
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    grads = (None,) * len(outputs) if grad_outputs is None else _tuple(grad_outputs)
    for x in inputs:
        if not x.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    allow = bool(allow_unused) or materialize_grads
    found = _C._grad(outputs, inputs, grads, retain_graph, create_graph, allow)
    if materialize_grads:
        found = tuple(_C._ops.zeros_like(x) if g is None else g for g, x in zip(found, inputs))
    return found


class set_detect_anomaly:  # noqa: N801
    """Accepted for compatibility. Errors of a backward name the node that failed in any case."""

    def __init__(self, mode, check_nan=True):
        self.mode = mode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


detect_anomaly = set_detect_anomaly
