"""The older `spectral_norm`, a hook that computes the weight before each forward."""

from __future__ import annotations

from typing import Any, TypeVar

import pytpu as torch
from pytpu import Tensor

from .. import functional as F
from ..modules.module import Module
from ..parameter import Parameter, UninitializedParameter
from .parametrizations import output_dim
from .weight_norm import find_hook

_M = TypeVar("_M", bound=Module)


def _least_squares(a, b):
    """Return the shortest `x` that minimises `|a x - b|`, by conjugate gradients on the normal equations."""
    x = a.new_zeros(a.shape[1])
    rest, towards = b.clone(), a.t().mv(b)
    size = first = towards.dot(towards).item()
    direction = towards
    for _ in range(2 * min(a.shape)):
        if size <= 1e-30 * first:
            break
        image = a.mv(direction)
        step = size / image.dot(image).item()
        x = x + step * direction
        rest = rest - step * image
        towards = a.t().mv(rest)
        before, size = size, towards.dot(towards).item()
        direction = towards + (size / before) * direction
    return x


class SpectralNorm:
    """Hook that divides a weight by an estimate of its largest singular value.

    Args:
        name: Name of the parameter.
        n_power_iterations: Number of steps of the power iteration in each forward in training mode.
        dim: Dimension of the rows.
        eps: Lower bound of norms in the iteration.

    Raises:
        ValueError: `n_power_iterations` is not positive.
    """

    # Version of the state dict. Before 1 it had the weight itself, and no `name_v`.
    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """Return the weight as a matrix.

        Args:
            weight: The weight.

        Returns:
            Matrix whose rows are `dim`.
        """
        weight = weight.movedim(self.dim, 0)
        return weight.reshape(weight.shape[0], -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight divided by the estimate.

        Args:
            module: Owner of the parameter `name_orig` and the buffers `name_u` and `name_v`.
            do_power_iteration: Whether to improve the estimate first.

        Returns:
            The weight.
        """
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with torch.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                # Copy the vectors: a second forward before backward changes them.
                u, v = u.clone(), v.clone()
        return weight / torch.dot(u, matrix.mv(v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def vector_of(self, weight: Tensor, u: Tensor, sigma: Tensor) -> Tensor:
        """Return the right singular vector that belongs to a left one.

        Args:
            weight: The weight.
            u: Left singular vector.
            sigma: Singular value.

        Returns:
            Vector `v` with `u` along `weight v`, scaled so that the two give `sigma`.
        """
        matrix = self.reshape_weight_to_matrix(weight).cpu().double()
        u = u.cpu().double()
        v = _least_squares(matrix, u)
        return (v * (sigma.cpu().double() / torch.dot(u, matrix.mv(v)))).to(weight)


class SpectralNormStateDictHook:
    """Hook that writes the version of the hook to the metadata of a state dict.

    Args:
        fn: The hook of the parameter.
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any]) -> None:
        versions, key = local_metadata.setdefault("spectral_norm", {}), f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = SpectralNorm._version


class SpectralNormLoadStateDictPreHook:
    """Hook that converts a state dict of an older version, which has the weight itself and no `name_v`.

    Args:
        fn: The hook of the parameter.
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        weight = prefix + self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(f"{self.fn.name}.version")
        if version is not None and version >= 1:
            return
        if (
            version is None
            and weight not in state_dict
            and all(f"{weight}_{s}" in state_dict for s in ("orig", "u", "v"))
        ):
            return
        missing = [key for key in (f"{weight}_orig", weight, f"{weight}_u") if key not in state_dict]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with torch.no_grad():
            orig = state_dict[f"{weight}_orig"]
            sigma = (orig / state_dict.pop(weight)).mean()
            state_dict[f"{weight}_v"] = self.fn.vector_of(orig, state_dict[f"{weight}_u"], sigma)


def spectral_norm(
    module: _M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> _M:
    """Divide a weight by an estimate of its largest singular value before each forward.

    The weight is taken as a matrix whose rows are `dim`. `parametrizations.spectral_norm` is newer.

    Args:
        module: Module to change.
        name: Name of the parameter.
        n_power_iterations: Number of steps of the power iteration in each forward in training mode.
        eps: Lower bound of norms in the iteration.
        dim: Dimension of the rows. `None` means 1 for transposed convolutions, and 0 for others.

    Returns:
        `module`.

    Raises:
        RuntimeError: The parameter has such a hook already.
        ValueError: The parameter is `None` or has no shape yet.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(20, 40))
        >>> layer.weight_u.shape
        torch.Size([40])
    """
    if find_hook(module, SpectralNorm, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    if isinstance(weight, UninitializedParameter):
        raise ValueError(
            "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
            "forward before applying spectral normalization"
        )
    with torch.no_grad():
        sizes = hook.reshape_weight_to_matrix(weight).shape
        u, v = (F.normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps) for n in sizes)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.data)
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(SpectralNormStateDictHook(hook))
    module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
    return module


def remove_spectral_norm(module: _M, name: str = "weight") -> _M:
    """Make a weight with `spectral_norm` a parameter again, with its present value.

    Args:
        module: Module to change.
        name: Name of the parameter.

    Returns:
        `module`.

    Raises:
        ValueError: The parameter has no such hook.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(2, 3))
        >>> sorted(dict(torch.nn.utils.remove_spectral_norm(layer).named_parameters()))
        ['bias', 'weight']
    """
    number = find_hook(module, SpectralNorm, name)
    if number is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    with torch.no_grad():
        own: Any = module._forward_pre_hooks.pop(number)
        weight = own.compute_weight(module, do_power_iteration=False)
    for part in (name, f"{name}_u", f"{name}_v", f"{name}_orig"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight.detach()))
    for hooks, kind in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        for key, hook in list(hooks.items()):
            hook = getattr(hook, "hook", hook)  # from a file of PyTorch, it is wrapped
            if isinstance(hook, kind) and hook.fn.name == name:
                del hooks[key]
    return module
