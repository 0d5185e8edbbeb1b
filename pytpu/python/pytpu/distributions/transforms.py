"""Transforms of random variables with their log-determinants, as in `torch.distributions.transforms`."""

from __future__ import annotations

import functools
import math
import numbers
import weakref

import pytpu as torch
from pytpu.nn.functional import logsigmoid, pad, softplus

from . import constraints
from .constraints import Constraint
from .distribution import Distribution
from .utils import _sum_rightmost, broadcast_all, tril_matrix_to_vec, vec_to_tril_matrix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pytpu import Tensor


__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """Base class of transforms: functions from `domain` to `codomain` with an inverse.

    A subclass defines `_call`, `_inverse` and `log_abs_det_jacobian`. The inverse is a right inverse only, unless the
    transform is `bijective`.

    Args:
        cache_size: With `1`, keep the last argument and its result, so that the inverse of the result is the same
            tensor. With `0`, keep nothing.

    Example:
        >>> import pytpu as torch
        >>> exp = torch.distributions.ExpTransform()
        >>> exp(torch.zeros(2)), exp.inv(torch.ones(2))
        (tensor([1., 1.]), tensor([0., 0.]))
    """

    bijective: bool = False
    domain: Constraint
    codomain: Constraint

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        if cache_size == 1:
            self._cached_x_y = None, None
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """Number of last dimensions that the transform acts on together.

        Raises:
            ValueError: If the numbers of `domain` and `codomain` differ.
        """
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """Inverse of the transform."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> int | Tensor:
        """Sign of the derivative, for a monotonic transform."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform with another size of the cache.

        Args:
            cache_size: `0` or `1`.
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]  # Equality is by value.

    def __call__(self, x: Tensor) -> Tensor:
        """Return the transform of `x`."""
        return self._remember(0, x, self._call)

    def _inv_call(self, y):
        return self._remember(1, y, self._inverse)

    def _remember(self, side, value, compute):
        """Return the other one of a pair, if `value` is the argument (side 0) or the result (side 1)."""
        if self._cache_size == 0:
            return compute(value)
        if value is not self._cached_x_y[side]:
            pair = value, compute(value)
            self._cached_x_y = pair if side == 0 else pair[::-1]
        return self._cached_x_y[1 - side]

    def _call(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the absolute determinant of the Jacobian.

        Args:
            x: Argument of the transform.
            y: Transform of `x`.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__ + "()"

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        """Return the shape of the transform of a tensor of this shape."""
        return shape

    def inverse_shape(self, shape: torch.Size) -> torch.Size:
        """Return the shape of the inverse transform of a tensor of this shape."""
        return shape


class _Plain(Transform):
    """A transform without parameters. All objects of a class are equal."""

    def __eq__(self, other):
        return isinstance(other, type(self))

    __hash__ = None  # type: ignore[assignment]  # Equality is by value.


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self):
        return dict(self.__dict__)

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return self._inv.domain

    @property
    def bijective(self):
        return self._inv.bijective

    @property
    def sign(self):
        return self._inv.sign

    @property
    def inv(self):
        return self._inv

    def with_cache(self, cache_size=1):
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None  # type: ignore[assignment]  # Equality is by value.

    def __repr__(self):
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x):
        return self._inv._inv_call(x)

    def _inv_call(self, y):
        return self._inv(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Apply several transforms in order.

    Args:
        parts: Transforms. The first one is applied first.
        cache_size: `0` or `1`.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributions.transforms import AffineTransform, ComposeTransform, ExpTransform
        >>> ComposeTransform([AffineTransform(0.0, 2.0), ExpTransform()])(torch.zeros(1))
        tensor([1.])
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None  # type: ignore[assignment]  # Equality is by value.

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return self._end(self.parts[::-1], "codomain", "domain")

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return self._end(self.parts, "domain", "codomain")

    @staticmethod
    def _end(parts, entrance, exit):
        """Return the constraint after the last of `parts`, for values that enter at one side and leave at the other."""
        if not parts:
            return constraints.real
        event_dim = 0
        for part in parts:
            # Each part takes as many dimensions of the event as it needs. The others stay.
            event_dim = max(event_dim - getattr(part, entrance).event_dim, 0) + getattr(part, exit).event_dim
        end = getattr(parts[-1], exit)
        more = event_dim - end.event_dim
        return constraints.independent(end, more) if more > 0 else end

    @property
    def bijective(self) -> bool:  # type: ignore[override]  # It follows from the parts.
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> int | Tensor:
        return math.prod(part.sign for part in self.parts)

    @property
    def inv(self) -> Transform:
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            inverse._inv = weakref.ref(self)
            self._inv = weakref.ref(inverse)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        return functools.reduce(lambda value, part: part(value), self.parts, x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return torch.zeros_like(x)
        total: Any = 0
        event_dim = self.domain.event_dim
        for i, part in enumerate(self.parts):
            z = y if i + 1 == len(self.parts) else part(x)
            total = total + _sum_rightmost(part.log_abs_det_jacobian(x, z), event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = z
        return total

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        return functools.reduce(lambda s, part: part.forward_shape(s), self.parts, shape)

    def inverse_shape(self, shape: torch.Size) -> torch.Size:
        return functools.reduce(lambda s, part: part.inverse_shape(s), reversed(self.parts), shape)

    def __repr__(self) -> str:
        return type(self).__name__ + "(\n    " + ",\n    ".join(repr(part) for part in self.parts) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Treat the last batch dimensions of a transform as dimensions of the event. Log-determinants are summed over them.

    Args:
        base_transform: The transform.
        reinterpreted_batch_ndims: Number of batch dimensions.
        cache_size: `0` or `1`.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributions.transforms import ExpTransform, IndependentTransform
        >>> x = torch.tensor([1.0, 2.0])
        >>> f = IndependentTransform(ExpTransform(), 1)
        >>> f.log_abs_det_jacobian(x, f(x))
        tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]  # It follows from the parts.
        return self.base_transform.bijective

    @property
    def sign(self) -> int | Tensor:
        return self.base_transform.sign

    def _call(self, x):
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y):
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: torch.Size) -> torch.Size:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Reshape the last dimensions.

    Args:
        in_shape: Shape of the last dimensions of the argument.
        out_shape: Shape of the last dimensions of the result.
        cache_size: `0` or `1`.

    Raises:
        ValueError: If the numbers of elements differ.

    Example:
        >>> import pytpu as torch
        >>> f = torch.distributions.ReshapeTransform((4,), (2, 2))
        >>> f(torch.arange(4))
        tensor([[0, 1],
                [2, 3]])
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape = torch.Size(in_shape)
        self.out_shape = torch.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x):
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        return self._replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: torch.Size) -> torch.Size:
        return self._replaced(shape, self.out_shape, self.in_shape)

    @staticmethod
    def _replaced(shape, old, new):
        if len(shape) < len(old):
            raise ValueError("Too few dimensions on input")
        cut = len(shape) - len(old)
        if shape[cut:] != old:
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
        return shape[:cut] + new


class ExpTransform(_Plain):
    """Transform `exp(x)`.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.ExpTransform()(torch.zeros(1))
        tensor([1.])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """Transform `x ** exponent` of positive numbers.

    Args:
        exponent: The exponent.
        cache_size: `0` or `1`.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.PowerTransform(2.0)(torch.tensor([3.0]))
        tensor([9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> int | Tensor:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = None  # type: ignore[assignment]  # Equality is by value.

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        return torch.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: torch.Size) -> torch.Size:
        return torch.broadcast_shapes(shape, self.exponent.shape)


def _clipped_sigmoid(x):
    """Return a sigmoid that is neither 0 nor 1."""
    info = torch.finfo(x.dtype)
    return torch.clamp(torch.sigmoid(x), min=info.tiny, max=1.0 - info.eps)


class SigmoidTransform(_Plain):
    """Transform `1 / (1 + exp(-x))`.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.SigmoidTransform()(torch.zeros(1))
        tensor([0.5000])
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x):
        return _clipped_sigmoid(x)

    def _inverse(self, y):
        info = torch.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Plain):
    """Transform `log(1 + exp(x))`, which is `x` above 20.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.SoftplusTransform()(torch.tensor([0.0, 30.0]))
        tensor([ 0.6931, 30.0000])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x):
        return softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(_Plain):
    """Transform `tanh(x)`. Its inverse loses precision near -1 and 1, so use a cache.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.TanhTransform(cache_size=1)(torch.zeros(1))
        tensor([0.])
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # 1 - tanh(x)^2, without the difference
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(_Plain):
    """Transform `abs(x)`. The inverse returns the positive value.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.AbsTransform()(torch.tensor([-2.0]))
        tensor([2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """Transform `loc + scale * x`, for each element.

    Args:
        loc: Number to add.
        scale: Factor.
        event_dim: Number of dimensions of the event.
        cache_size: `0` or `1`.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.AffineTransform(1.0, 2.0)(torch.tensor([3.0]))
        tensor([7.])
    """

    bijective = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _same_numbers(self.loc, other.loc)
            and _same_numbers(self.scale, other.scale)
        )

    __hash__ = None  # type: ignore[assignment]  # Equality is by value.

    @property
    def sign(self) -> int | Tensor:
        scale: Any = self.scale
        if isinstance(scale, numbers.Real):
            return 1 if scale > 0 else -1 if scale < 0 else 0  # type: ignore[operator]  # `Real` has no `<`.
        return scale.sign()

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, torch.Tensor):
            result = self.scale.abs().log()
        else:
            result = torch.full_like(x, math.log(abs(self.scale)))
        return _sum_rightmost(result.expand(torch.broadcast_shapes(x.shape, result.shape)), self.event_dim)

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        return torch.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


def _same_numbers(a, b):
    if isinstance(a, numbers.Number) and isinstance(b, numbers.Number):
        return a == b
    return bool((torch.as_tensor(a) == torch.as_tensor(b)).all().item())


class CorrCholeskyTransform(Transform):
    """Transform vectors of `d * (d - 1) / 2` numbers to Cholesky factors of correlation matrices of shape `(d, d)`.

    The hyperbolic tangents of the numbers are partial correlations. Each one takes its part of the remaining length of
    a row, which is 1.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.CorrCholeskyTransform()(torch.zeros(1))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        eps = torch.finfo(x.dtype).eps
        r = vec_to_tril_matrix(torch.tanh(x).clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r**2).sqrt().cumprod(-1)
        r = r + torch.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = pad(1 - torch.cumsum(y * y, dim=-1)[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Tensor | None = None) -> Tensor:
        # Each entry of y is a partial correlation times the rest of the row, without the diagonal of its column.
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        of_lengths = 0.5 * left.log().sum(-1)
        of_tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return of_lengths + of_tanh

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (d, d)

    def inverse_shape(self, shape: torch.Size) -> torch.Size:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        d = shape[-1]
        return shape[:-2] + (d * (d - 1) // 2,)


def _same_vectors(shape):
    if len(shape) < 1:
        raise ValueError("Too few dimensions on input")
    return shape


class SoftmaxTransform(_Plain):
    """Transform vectors by softmax. The logarithm is one of the inverses.

    It is not bijective. `StickBreakingTransform` is.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.SoftmaxTransform()(torch.zeros(4))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x):
        exps = (x - x.max(-1, True)[0]).exp()
        return exps / exps.sum(-1, True)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        return _same_vectors(shape)

    def inverse_shape(self, shape: torch.Size) -> torch.Size:
        return _same_vectors(shape)


class StickBreakingTransform(_Plain):
    """Transform vectors of `k - 1` numbers to `k` probabilities. Each takes its fraction of the rest of a stick.

    Zeros give equal probabilities.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.StickBreakingTransform()(torch.zeros(3))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _offsets(x):
        """Return the number of pieces that follow each piece."""
        return x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)

    def _call(self, x):
        z = _clipped_sigmoid(x - self._offsets(x).log())
        left = (1 - z).cumprod(-1)
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y):
        taken = y[..., :-1]
        left = torch.clamp(1 - taken.cumsum(-1), min=torch.finfo(y.dtype).tiny)
        return taken.log() - left.log() + self._offsets(taken).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offsets(x).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        shape = _same_vectors(shape)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: torch.Size) -> torch.Size:
        shape = _same_vectors(shape)
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(_Plain):
    """Transform square matrices to lower triangular matrices, with the exponential of the diagonal.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.LowerCholeskyTransform()(torch.tensor([[0.0, 5.0], [3.0, 0.0]]))
        tensor([[1., 0.],
                [3., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """Transform square matrices to positive definite matrices, by their Cholesky factors.

    Example:
        >>> import pytpu as torch
        >>> torch.distributions.PositiveDefiniteTransform()(torch.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))


class _Joined(Transform):
    """Transforms of the pieces of a value along a dimension."""

    def __init__(self, tseq, dim, cache_size):
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    @property
    def bijective(self):
        return all(t.bijective for t in self.transforms)

    def _check(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {value.dim()} dimensions")


class CatTransform(_Joined):
    """Apply transforms to consecutive pieces along a dimension.

    Args:
        tseq: Transforms.
        dim: Dimension.
        lengths: Size of each piece. `None` is 1 for each.
        cache_size: `0` or `1`.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributions.transforms import CatTransform, ExpTransform, identity_transform
        >>> CatTransform([ExpTransform(), identity_transform], lengths=[1, 2])(torch.zeros(3))
        tensor([1., 0., 0.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """Size along `dim`."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, value, name):
        self._check(value)
        if value.size(self.dim) != self.length:
            raise AssertionError(f"{name}.size({self.dim}) = {value.size(self.dim)} must equal length {self.length}")
        return value.split(self.lengths, self.dim)

    def _call(self, x):
        pieces = self._pieces(x, "x")
        return torch.cat([t(piece) for t, piece in zip(self.transforms, pieces, strict=True)], dim=self.dim)

    def _inverse(self, y):
        pieces = self._pieces(y, "y")
        return torch.cat([t.inv(piece) for t, piece in zip(self.transforms, pieces, strict=True)], dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pieces = []
        for t, a, b in zip(self.transforms, self._pieces(x, "x"), self._pieces(y, "y"), strict=True):
            jacobian = t.log_abs_det_jacobian(a, b)
            pieces.append(
                _sum_rightmost(jacobian, self.event_dim - t.event_dim) if t.event_dim < self.event_dim else jacobian
            )
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        # If the dimension belongs to the event, the determinants multiply.
        return torch.cat(pieces, dim=dim) if dim < 0 else sum(pieces)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.cat([t.domain for t in self.transforms], dim=self.dim, lengths=self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.cat([t.codomain for t in self.transforms], dim=self.dim, lengths=self.lengths)


class StackTransform(_Joined):
    """Apply one transform to each entry along a dimension.

    Args:
        tseq: Transforms.
        dim: Dimension.
        cache_size: `0` or `1`.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributions.transforms import ExpTransform, StackTransform, identity_transform
        >>> StackTransform([ExpTransform(), identity_transform])(torch.zeros(2, 3))
        tensor([[1., 1., 1.],
                [0., 0., 0.]])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _pieces(self, value, name):
        self._check(value)
        if value.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"{name}.size({self.dim}) = {value.size(self.dim)} must equal len(transforms) {len(self.transforms)}"
            )
        return value.unbind(self.dim)

    def _call(self, x):
        return torch.stack([t(piece) for t, piece in zip(self.transforms, self._pieces(x, "x"), strict=True)], self.dim)

    def _inverse(self, y):
        return torch.stack(
            [t.inv(piece) for t, piece in zip(self.transforms, self._pieces(y, "y"), strict=True)], self.dim
        )

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pieces = zip(self.transforms, self._pieces(x, "x"), self._pieces(y, "y"), strict=True)
        return torch.stack([t.log_abs_det_jacobian(a, b) for t, a, b in pieces], dim=self.dim)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.stack([t.domain for t in self.transforms], dim=self.dim)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.stack([t.codomain for t in self.transforms], dim=self.dim)


class CumulativeDistributionTransform(Transform):
    """Transform by the `cdf` of a distribution, which makes its samples uniform.

    Args:
        distribution: The distribution.
        cache_size: `0` or `1`.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributions.transforms import CumulativeDistributionTransform
        >>> CumulativeDistributionTransform(torch.distributions.Normal(0.0, 1.0))(torch.zeros(1))
        tensor([0.5000])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        if not isinstance(distribution, Distribution):
            raise AssertionError(f"distribution must be a Distribution, got {type(distribution).__name__}")
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:  # type: ignore[override]  # The support of the distribution.
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
