"""The older `weight_norm`: a hook that computes the weight before each forward."""

import warnings

import pytpu as torch

from ..parameter import Parameter, UninitializedParameter
from .parametrizations import norm_but


class WeightNorm:
    """The hook: `name` is computed from its size `name_g` and its direction `name_v`."""

    def __init__(self, name, dim):
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module):
        """The weight."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_but(v, self.dim))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module))


def find_hook(module, kind, name):
    """The number of the hook of this kind on a parameter, or `None`."""
    hooks = module._forward_pre_hooks.items()
    return next((k for k, hook in hooks if isinstance(hook, kind) and hook.name == name), None)


def weight_norm(module, name="weight", dim=0):
    """Makes `name` the product of its size, `name_g`, and its direction, `name_v`; returns the module.

    Sizes are norms over all dimensions but `dim`; with `None` there is one. `parametrizations.weight_norm` is newer.
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


def remove_weight_norm(module, name="weight"):
    """Makes `name` an ordinary parameter again; returns the module. Raises `ValueError` where it is one."""
    number = find_hook(module, WeightNorm, name)
    if number is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    weight = module._forward_pre_hooks.pop(number).compute_weight(module)
    delattr(module, name)
    del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
    setattr(module, name, Parameter(weight.detach()))
    return module
