"""The older `weight_norm`, a hook that computes the weight before each forward."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

import pytpu as torch
from pytpu import Tensor

from ..modules.module import Module
from ..parameter import Parameter, UninitializedParameter
from .parametrizations import norm_but

_M = TypeVar("_M", bound=Module)


class WeightNorm:
    """Hook that computes a weight from its norm and its direction.

    Args:
        name: Name of the parameter.
        dim: Dimension that keeps its own norms. `None` means one norm.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight.

        Args:
            module: Owner of the parameters `name_g` and `name_v`.

        Returns:
            `name_v * name_g / norm(name_v)`.
        """
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_but(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def find_hook(module: Module, kind: type[Any], name: str) -> int | None:
    """Return the number of a hook on a parameter.

    Args:
        module: Module to search.
        kind: Class of the hook.
        name: Name of the parameter.

    Returns:
        Its number among the forward pre-hooks, or `None`.
    """
    hooks = module._forward_pre_hooks.items()
    return next((k for k, hook in hooks if isinstance(hook, kind) and hook.name == name), None)


def weight_norm(module: _M, name: str = "weight", dim: int | None = 0) -> _M:
    """Compute a weight from its norm `name_g` and its direction `name_v` before each forward. Deprecated.

    `parametrizations.weight_norm` is newer.

    Args:
        module: Module to change.
        name: Name of the parameter.
        dim: Dimension that keeps its own norms. `None` means one norm for the whole weight.

    Returns:
        `module`.

    Raises:
        RuntimeError: The parameter has such a hook already.
        ValueError: The parameter has no shape yet.
        TypeError: The attribute is not a tensor.

    Example:
        >>> import pytpu as torch
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     layer = torch.nn.utils.weight_norm(torch.nn.Linear(20, 40))
        >>> layer.weight_g.shape, layer.weight_v.shape
        (torch.Size([40, 1]), torch.Size([40, 20]))
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    if find_hook(module, WeightNorm, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    if isinstance(weight, UninitializedParameter):
        raise ValueError(
            "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy forward "
            "before applying weight normalization"
        )
    del module._parameters[name]
    if not isinstance(weight, torch.Tensor):
        raise TypeError(f"norm_except_dim(): argument 'v' (position 1) must be Tensor, not {type(weight).__name__}")
    with torch.no_grad():
        size = norm_but(weight, hook.dim)
    module.register_parameter(f"{name}_g", Parameter(size))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: _M, name: str = "weight") -> _M:
    """Make a weight with `weight_norm` a parameter again, with its present value.

    Args:
        module: Module to change.
        name: Name of the parameter.

    Returns:
        `module`.

    Raises:
        ValueError: The parameter has no such hook.

    Example:
        >>> import pytpu as torch
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     layer = torch.nn.utils.weight_norm(torch.nn.Linear(2, 3))
        >>> sorted(dict(torch.nn.utils.remove_weight_norm(layer).named_parameters()))
        ['bias', 'weight']
    """
    number = find_hook(module, WeightNorm, name)
    if number is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    hook: Any = module._forward_pre_hooks.pop(number)
    weight = hook.compute_weight(module)
    delattr(module, name)
    del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
    setattr(module, name, Parameter(weight.detach()))
    return module
