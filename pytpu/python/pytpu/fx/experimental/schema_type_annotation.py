"""`torch.fx.experimental.schema_type_annotation`: types of values, from what functions declare."""

from __future__ import annotations

import inspect
from typing import Any

import pytpu as torch

from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Target, _as_torch_name
from ..proxy import Proxy

__all__ = ["AnnotateTypesWithSchema"]


class AnnotateTypesWithSchema(Transformer):
    """A transformer that gives nodes the types that functions and modules declare.

    Args:
        module: The graph module.
        annotate_functionals: Look at functions of `torch.nn.functional`.
        annotate_modules: Look at modules of `torch.nn`.
        annotate_get_attrs: Give attributes that are tensors their type.
    """

    def __init__(
        self,
        module: GraphModule,
        annotate_functionals: bool = True,
        annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        super().__init__(module)
        self.annotate_functionals, self.annotate_modules = annotate_functionals, annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def _typed(self, proxy: Any, declared: Any) -> Any:
        proxy.node.type = proxy.node.type or declared
        return proxy

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Insert a call of a function with the type that it declares."""
        of_nn = _as_torch_name(getattr(target, "__module__", None) or "") == "torch.nn.functional"
        declared = self._extract_python_return_type(target) if self.annotate_functionals and of_nn else None
        return self._typed(super().call_function(target, args, kwargs), declared)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Insert a call of a module with the type that its forward declares."""
        module = self.fetch_attr(str(target))
        of_nn = getattr(torch.nn, type(module).__name__, None) is type(module)
        declared = self._extract_python_return_type(module.forward) if self.annotate_modules and of_nn else None
        return self._typed(super().call_module(target, args, kwargs), declared)

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Insert a read of an attribute with its type."""
        proxy = super().get_attr(target, args, kwargs)
        value = self.fetch_attr(str(target))
        kinds = (torch.Tensor, bool, int, float, str)
        declared = next((kind for kind in kinds if isinstance(value, kind)), None)
        return self._typed(proxy, declared) if self.annotate_get_attrs else proxy

    def _extract_python_return_type(self, target: Any) -> Any | None:
        try:
            declared = inspect.signature(target, eval_str=True).return_annotation
        except (ValueError, TypeError, NameError):
            return None
        return None if declared is inspect.Signature.empty else declared
