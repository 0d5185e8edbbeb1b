"""``torch._dynamo.utils``: counts of graphs, and names that libraries use."""

from __future__ import annotations

import collections
import math
import sys
from typing import Any


def is_compile_supported(device_type):
    """Return whether ``torch.compile`` may be used on a device: always."""
    return True


def is_dynamo_supported():
    """Return ``True``: ``torch.compile`` may be used."""
    return True


#: Counts: graphs and their calls under ``stats``, ends of graphs under ``graph_break``, and ``recompiles``.
counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """Return how long backends took for each graph: a text, or with ``repr="csv"`` names and rows."""
    capture = sys.modules.get("pytpu._dynamo._capture")
    spent: dict[str, list[float]] = {} if capture is None else capture.compile_times
    if repr == "csv":
        return list(spent), [[f"{t:.4f}" for t in times] for times in spent.values()]
    rows = [f"{name}, {sum(t) if aggregate else ', '.join(f'{x:.4f}' for x in t)}" for name, t in spent.items()]
    return "\n".join(["TorchDynamo compilation metrics:", "Function, Runtimes (s)", *rows])


def clone_input(x: Any) -> Any:
    """Return a copy of a tensor with the same strides and gradient."""
    copy = x.detach().clone().requires_grad_(x.requires_grad)
    if x.is_leaf and x.grad is not None:
        copy.grad = x.grad.clone()
    return copy


def clone_inputs(example_inputs: Any) -> Any:
    """Return copies of the tensors of a list or dictionary."""
    from .. import Tensor

    def one(x: Any) -> Any:
        return clone_input(x) if isinstance(x, Tensor) else x

    if isinstance(example_inputs, dict):
        return {k: one(v) for k, v in example_inputs.items()}
    return [one(x) for x in example_inputs]


def same(
    ref: Any,
    res: Any,
    fp64_ref: Any = None,
    cos_similarity: bool = False,
    tol: float = 1e-4,
    equal_nan: bool = False,
    exact_dtype: bool = True,
    **_: Any,
) -> bool:
    """Return whether two nested results agree: sizes, dtypes and, within `tol`, elements."""
    from .. import Tensor, allclose

    def agree(a: Any, b: Any) -> bool:
        return same(a, b, None, cos_similarity, tol, equal_nan, exact_dtype)

    if isinstance(ref, (list, tuple)):
        return isinstance(res, (list, tuple)) and len(ref) == len(res) and all(map(agree, ref, res))
    if isinstance(ref, dict):
        return isinstance(res, dict) and set(ref) == set(res) and all(agree(ref[k], res[k]) for k in ref)
    if isinstance(ref, Tensor):
        if not isinstance(res, Tensor) or ref.shape != res.shape or (exact_dtype and ref.dtype != res.dtype):
            return False
        if not ref.dtype.is_floating_point and not ref.dtype.is_complex:
            return bool((ref == res).all())
        return allclose(ref.detach(), res.detach().to(ref.dtype), atol=tol, rtol=tol, equal_nan=equal_nan)
    if isinstance(ref, float):
        return math.isclose(ref, res, rel_tol=tol, abs_tol=tol) or (equal_nan and math.isnan(ref) and math.isnan(res))
    if type(ref).__name__ in ("ModelOutput",) or hasattr(ref, "to_tuple"):
        return agree(ref.to_tuple(), res.to_tuple())
    return bool(ref == res)


_warned: set[str] = set()


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Give a warning, unless this process has already given one with the same text."""
    import warnings

    if msg not in _warned:
        _warned.add(msg)
        warnings.warn(msg, stacklevel=stacklevel + 1)
