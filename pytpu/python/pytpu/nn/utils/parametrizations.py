"""Parametrizations with orthogonal and normalised weights, as in `torch.nn.utils.parametrizations`."""

from __future__ import annotations

import pytpu as torch
from pytpu import Tensor

from .. import functional as F
from ..modules import conv
from ..modules.module import Module
from . import parametrize
from .orthogonal import _Orthogonal as _Orthogonal, orthogonal

_TRANSPOSED = (conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d)


def output_dim(module: Module) -> int:
    """Return the dimension of the weight of a layer that counts its outputs.

    Args:
        module: The layer.

    Returns:
        1 for transposed convolutions, and 0 for others.
    """
    return 1 if isinstance(module, _TRANSPOSED) else 0


def norm_but(weight: Tensor, dim: int) -> Tensor:
    """Return norms over all dimensions but one.

    Args:
        weight: Tensor of any shape.
        dim: The dimension to keep. -1 means none.

    Returns:
        Tensor with all other sizes 1, or a scalar where `dim` is -1.

    Raises:
        IndexError: There is no such dimension.
    """
    if dim == -1:
        return weight.norm()
    rank = weight.dim()
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    dim %= rank
    return torch.linalg.vector_norm(weight, dim=[d for d in range(weight.dim()) if d != dim], keepdim=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return the weight of a norm and a direction."""
        return weight_v * (weight_g / norm_but(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the norm and the direction of `weight`."""
        return norm_but(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Make a weight the product of its norm, `original0`, and its direction, `original1`.

    `weight = original1 * original0 / norm(original1)`. A state dict of the older `weight_norm` can be loaded.

    Args:
        module: Module to change.
        name: Name of the parameter.
        dim: Dimension that keeps its own norms. `None` means one norm for the whole weight.

    Returns:
        `module`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(20, 40))
        >>> layer.parametrizations.weight.original0.shape
        torch.Size([40, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def translate(state_dict, prefix, *_):
        for i, old in enumerate((f"{prefix}{name}_g", f"{prefix}{name}_v")):
            if old in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(old)

    module._register_load_state_dict_pre_hook(translate)
    return module


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.dim()
        if not -rank <= dim < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % rank
        self.eps = eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight.detach())
            u, v = (matrix.new_empty(n).normal_(0, 1) for n in matrix.shape)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1)

    @torch.no_grad()
    def _iterate(self, matrix, times):
        for _ in range(times):
            self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """Return `weight` divided by the estimate of its largest singular value."""
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copy the vectors: a second forward before backward changes them.
        return weight / torch.vdot(self._u.clone(), matrix.mv(self._v.clone()))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return `value`: assigning does not divide."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by an estimate of its largest singular value.

    The weight is taken as a matrix whose rows are `dim`.

    Args:
        module: Module to change.
        name: Name of the parameter.
        n_power_iterations: Number of steps of the power iteration in each forward in training mode.
        eps: Lower bound of norms in the iteration.
        dim: Dimension of the rows. `None` means 1 for transposed convolutions, and 0 for others.

    Returns:
        `module`.

    Raises:
        ValueError: There is no such tensor, or `n_power_iterations` is not positive.
        IndexError: There is no dimension `dim`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(20, 40))
        >>> layer.weight.shape
        torch.Size([40, 20])
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = output_dim(module) if dim is None else dim
    parametrization = _SpectralNorm(weight, n_power_iterations, dim, eps)
    parametrize.register_parametrization(module, name, parametrization)
    return module


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
