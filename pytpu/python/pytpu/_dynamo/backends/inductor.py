"""Backends that run a graph in the usual way: on ``tpu`` the ops are compiled, on ``cpu`` they run."""

from __future__ import annotations

from typing import Any

from .registry import register_backend


def _as_usual(gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
    return gm.forward


@register_backend
def inductor(gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
    """Return the graph as a function, which runs as all code here. It is the default of ``torch.compile``."""
    return _as_usual(gm, example_inputs)


#: Names of PyTorch's backends for other compilers, which do the same here.
for _name in ("cudagraphs", "openxla", "tpu", "tvm"):
    register_backend(_as_usual, name=_name)
register_backend(_as_usual, name="onnxrt", tags=("experimental",))
