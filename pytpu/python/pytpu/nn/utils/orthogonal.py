"""Parametrizations as orthogonal and unitary matrices."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytpu as torch
from pytpu import Tensor

from ..modules.module import Module
from . import parametrize

# On a device, counts are fixed, because reading values would wait. These are enough for norms up to 2**16.
_SQUARINGS = 16
_STEPS = 22


def _norm(a):
    """Return the largest column sum of absolute values, of shape `(*, 1, 1)`.

    It bounds the singular values of a skew-symmetric matrix.
    """
    return a.detach().abs().sum(-2).amax(-1)[..., None, None]


def _eye_like(a):
    return torch.eye(a.size(-1), dtype=a.dtype, device=a.device)


def matrix_exp(a: Tensor) -> Tensor:
    """Return the exponential of matrices.

    A Taylor polynomial of `a / 2^s`, whose norm is at most 1, is squared `s` times.

    Args:
        a: Matrices `(*, n, n)`.

    Returns:
        Tensor of the same shape. On other devices than `cpu` it is NaN where the norm is above `2^16`.
    """
    norm = _norm(a)
    s = torch.where(norm.isfinite(), norm.clamp(min=1).log2().ceil(), 0)
    a = a * torch.exp2(-s)
    # The remainder is less than 1 / 12! for single and 1 / 18! for double precision.
    degree = 17 if torch.finfo(a.dtype).bits == 64 else 11
    eye, a2 = _eye_like(a), a @ a
    a3 = a2 @ a
    power: Any = None
    for i in range(degree - 2, -1, -3):
        part = (eye + a / (i + 1) + a2 / ((i + 1) * (i + 2))) / math.factorial(i)
        power = part if power is None else power @ a3 + part
    squarings = int(s.amax().item()) if a.is_cpu and a.numel() else _SQUARINGS
    for i in range(squarings):
        power = torch.where(s > i, power @ power, power)
    return torch.where(s > squarings, math.nan, power)


class _Inverse(torch.autograd.Function):
    """Compute the inverse of `I - a / 2` for a skew-symmetric `a`.

    Each step is `y <- y (2 - m y)`. The first `y` is a multiple of the adjoint, so that `m y` is positive
    definite. If its eigenvalues are between `low` and `2 - low`, the next ones are between `low (2 - low)` and
    1, and are then centred again.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        """Return the inverse."""
        eye = _eye_like(a)
        m = eye - a / 2
        low = 2 / (2 + _norm(a).square() / 4)
        y = m.mH * low
        for _ in range(100 if a.is_cpu else _STEPS):
            if a.is_cpu and (low.numel() == 0 or 1 - low.amin().item() <= torch.finfo(low.dtype).eps):
                break
            least = low * (2 - low)
            y = y @ (2 * eye - m @ y) * (2 / (1 + least))
            low = 2 * least / (1 + least)
        y = torch.where(low < 0.999, math.nan, y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        """Return the gradient of `a`."""
        (y,) = ctx.saved_tensors
        return y.mH @ g @ y.mH / 2


def cayley(a: Tensor) -> Tensor:
    """Return the Cayley transform of skew-symmetric matrices.

    `(I + a / 2) (I - a / 2)^-1`.

    Args:
        a: Matrices `(*, n, n)`.

    Returns:
        Orthogonal matrices of the same shape.
    """
    return 2 * _Inverse.apply(a) - _eye_like(a)


def _upper_inverse(u):
    """Return the inverse of an upper triangular matrix, by doubling the size of inverted diagonal blocks."""
    n = u.size(-1)
    size = 1 << (n - 1).bit_length()
    # Pad with ones on the diagonal, so that all blocks have one size.
    u = torch.nn.functional.pad(u, (0, size - n, 0, size - n))
    diagonal = u.diagonal(dim1=-2, dim2=-1) + (torch.arange(size, device=u.device) >= n).to(u.dtype)
    inverse = diagonal.reciprocal()[..., None, None]
    half = 1
    while half < size:
        a, d = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        blocks = u.unflatten(-1, (-1, 2 * half)).unflatten(-3, (-1, 2 * half))
        b = blocks.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)[..., :half, half:]
        upper = torch.cat([a, -(a @ b @ d)], dim=-1)
        inverse = torch.cat([upper, torch.cat([torch.zeros_like(a), d], dim=-1)], dim=-2)
        half *= 2
    return inverse[..., 0, :n, :n]


def householder(x: Tensor) -> Tensor:
    """Return the first columns of a product of Householder reflections.

    The vectors have a one on the diagonal and the elements of `x` below it. The product is `I - v t v^T`, where
    the inverse of `t` is the upper triangle of `v^T v` with half of its diagonal.

    Args:
        x: Matrices `(*, n, k)` with `n >= k`.

    Returns:
        Matrices `(*, n, k)` with orthonormal columns.
    """
    n, k = x.shape[-2:]
    v = x.tril(-1) + torch.eye(n, k, dtype=x.dtype, device=x.device)
    gram = v.mT @ v
    t = _upper_inverse(gram.triu(1) + torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1) / 2))
    return torch.eye(n, k, dtype=x.dtype, device=x.device) - v @ (t @ v[..., :k, :].mT)


def _orthogonalise(a):
    """Return the Q of the QR decomposition whose R has a positive diagonal."""
    q, r = torch.linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(q):
    tolerance = 10 * q.size(-2) * torch.finfo(q.dtype).eps
    return torch.allclose(q.mH @ q, _eye_like(q), atol=tolerance)


class _Orthogonal(Module):
    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        """Return the orthogonal matrix of the parameter `x`."""
        is_wide = x.size(-2) < x.size(-1)
        x = x.mT if is_wide else x
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            q = householder(x) * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            lower = torch.nn.functional.pad(x.tril(), (0, n - k))
            q = (cayley if self.orthogonal_map == "cayley" else matrix_exp)(lower - lower.mH)[..., :k]
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if is_wide else q

    @torch.no_grad()
    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the parameter whose matrix is `value`, made orthogonal."""
        if value.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {value.shape}."
            )
        is_wide = value.size(-2) < value.size(-1)
        q = value.mT if is_wide else value
        n, k = q.shape[-2:]
        if hasattr(self, "base"):
            if n != k:
                rest = torch.randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
                self.base = _orthogonalise(torch.cat([q, rest], dim=-1))
            else:
                self.base = q.clone() if _is_orthogonal(q) else _orthogonalise(q)
            # All maps take this to the identity: the diagonal undoes the reflections at the axes.
            return -torch.eye(*value.shape[-2:], dtype=q.dtype, device=q.device).expand(value.shape).clone()
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        x, tau = torch.geqrf(q)
        # Signs of the diagonal of R. LAPACK does not reflect where `tau` is 0, but the map does.
        diagonal = x.diagonal(dim1=-2, dim2=-1)
        diagonal.copy_(diagonal.sign() * torch.where(tau == 0, -1, 1))
        return x.mT.clone(memory_format=torch.contiguous_format) if is_wide else x


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: Literal["matrix_exp", "cayley", "householder"] | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Make a weight a matrix with orthonormal columns, or rows where there are fewer of them.

    Training starts at the weight as it was, made orthogonal, where `use_trivialization` is set.

    Args:
        module: Module to change.
        name: Name of a tensor with at least two dimensions. The last two are matrices.
        orthogonal_map: `"matrix_exp"` or `"cayley"`, of a skew-symmetric matrix, or `"householder"`, a product
            of reflections. `None` means `"matrix_exp"` for square and complex matrices, and `"householder"` for
            others.
        use_trivialization: Whether to multiply the result by a fixed matrix, the buffer `base`.

    Returns:
        `module`.

    Raises:
        ValueError: There is no such tensor, it has fewer than two dimensions, or the map is unknown or not for
            complex tensors.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(20, 40))
        >>> w = layer.weight
        >>> torch.allclose(w.T @ w, torch.eye(20), atol=1e-5)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        is_square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if is_square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization)
    parametrize.register_parametrization(module, name, parametrization, unsafe=True)
    return module
