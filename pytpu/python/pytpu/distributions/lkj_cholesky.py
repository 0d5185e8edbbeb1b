"""The distribution `LKJCholesky`."""

from __future__ import annotations

import math

import pytpu as torch

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from pytpu import Tensor


__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Distribution of Cholesky factors of correlation matrices of shape `(dim, dim)`.

    The density of a matrix is proportional to `det(matrix) ** (concentration - 1)`, so 1 is uniform. Samples use the
    onion
    method: row after row, a direction and a length.

    Args:
        dim: Size of the matrices, at least 2.
        concentration: Shape, positive.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If `dim` is less than 2.
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.LKJCholesky(3, 0.5)
        >>> d.sample().shape
        torch.Size([3, 3])

    Source:
        Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and extended onion
        method", 2009.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _expanded = {"concentration": 0}
    _kept = ("dim",)

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # In row i, the squared length of the part left of the diagonal has the distribution
        # Beta(i / 2, concentration + (dim - 1 - i) / 2). The first row has no such part, and its draw is not used.
        like: dict[str, Any] = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        before = torch.cat([torch.zeros(1, **like), torch.arange(dim - 1, **like)])
        last = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(before + 0.5, last.unsqueeze(-1) - 0.5 * before)
        super().__init__(self.concentration.size(), torch.Size((dim, dim)), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._beta = self._beta.expand(torch.Size(batch_shape) + (self.dim,))
        return new

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        # The draws of the beta variables come first.
        squares = self._beta.sample(sample_shape).unsqueeze(-1)
        shape = self._extended_shape(sample_shape)
        normal = torch.randn(shape, dtype=squares.dtype, device=squares.device).tril(-1)
        directions = normal / normal.norm(dim=-1, keepdim=True)
        # The first row is zero over zero.
        rows = torch.arange(self.dim, device=squares.device).unsqueeze(-1)
        left = torch.where(rows == 0, 0, torch.sqrt(squares) * directions)
        tiny = torch.finfo(left.dtype).tiny
        diagonal = torch.clamp(1 - torch.sum(left**2, dim=-1), min=tiny).sqrt()
        return left + torch.diag_embed(diagonal)

    def log_prob(self, value: Tensor) -> Tensor:
        # The density of the matrix times the Jacobian of the map from factors to matrices: powers of the diagonal.
        if self._validate_args:
            self._validate_sample(value)
        n = self.dim - 1
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        row = torch.arange(2, self.dim + 1, device=self.concentration.device)
        power = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - row
        density = torch.sum(power * diagonal.log(), dim=-1)
        alpha = self.concentration + 0.5 * n
        norm = 0.5 * n * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, n) - torch.lgamma(alpha) * n
        return density - norm
