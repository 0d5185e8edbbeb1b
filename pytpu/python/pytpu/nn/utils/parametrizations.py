"""Orthogonal and normalised weights as parametrizations, as in `torch.nn.utils.parametrizations`."""

import pytpu as torch

from .. import functional as F
from ..modules import conv
from ..modules.module import Module
from . import parametrize
from .orthogonal import _Orthogonal as _Orthogonal
from .orthogonal import orthogonal

_TRANSPOSED = (conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d)


def output_dim(module):
    """The dimension of a layer's weight that counts its outputs."""
    return 1 if isinstance(module, _TRANSPOSED) else 0


def norm_but(weight, dim):
    """Norms over all dimensions but one, which keep their dimensions; of everything, a number, where `dim` is -1."""
    if dim == -1:
        return weight.norm()
    rank = weight.dim()
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    dim %= rank
    return torch.linalg.vector_norm(weight, dim=[d for d in range(weight.dim()) if d != dim], keepdim=True)


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_but(weight_v, self.dim))

    def right_inverse(self, weight):
        return norm_but(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Makes a weight the product of its size, `original0`, and its direction, `original1`; returns the module.

    Sizes are norms over all dimensions but `dim`; with `None` there is one. A `state_dict` of the older function is understood.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def translate(state_dict, prefix, *_):
        for i, old in enumerate((f"{prefix}{name}_g", f"{prefix}{name}_v")):
            if old in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(old)

    module._register_load_state_dict_pre_hook(translate)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
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

    def forward(self, weight):
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: a second forward before backward changes the vectors.
        return weight / torch.vdot(self._u.clone(), matrix.mv(self._v.clone()))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a weight by its largest singular value, as `n_power_iterations` steps of each forward in training estimate it.

    The weight is seen as a matrix whose rows are `dim`: 0, or 1 for transposed convolutions. Returns the module. Raises `ValueError`
    when there is no such weight.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = output_dim(module) if dim is None else dim
    parametrization = _SpectralNorm(weight, n_power_iterations, dim, eps)
    parametrize.register_parametrization(module, name, parametrization)
    return module


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
