"""Parts of backends: `aot_autograd` makes a backend of compilers for forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytpu as torch

__all__ = ["AotAutograd", "aot_autograd", "device_from_inputs", "dtype_from_inputs", "fake_tensor_unsupported"]


class AotAutograd:
    """A backend that makes graphs of operators for forward and backward, and gives each to a compiler.

    Args:
        kwargs: arguments of ``torch._functorch.aot_autograd.aot_module_simplified``.
    """

    def __init__(self, **kwargs: Any) -> None:
        self.__name__ = "compiler_fn"
        self.kwargs = kwargs

    def __call__(self, gm: Any, example_inputs: Iterable[Any], **kwargs: Any) -> Callable[..., Any]:
        from ..._functorch.aot_autograd import aot_module_simplified

        settings = dict(self.kwargs)
        if callable(settings.get("decompositions")):
            settings["decompositions"] = settings["decompositions"]()
        return aot_module_simplified(gm, list(example_inputs), **settings)


def aot_autograd(**kwargs: Any) -> AotAutograd:
    """Return a backend for ``torch.compile`` that calls ``fw_compiler`` and ``bw_compiler``.

    Args:
        kwargs: arguments of ``torch._functorch.aot_autograd.aot_module_simplified``.
    """
    return AotAutograd(**kwargs)


def fake_tensor_unsupported(fn: Any) -> Any:
    """Return the backend itself: its inputs have elements."""
    return fn


def device_from_inputs(example_inputs: Iterable[Any]) -> torch.device:
    """Return the device of the first input."""
    return next(x.device for x in example_inputs if hasattr(x, "device"))


def dtype_from_inputs(example_inputs: Iterable[Any]) -> torch.dtype:
    """Return the dtype of the first input."""
    return next(x.dtype for x in example_inputs if hasattr(x, "dtype"))
