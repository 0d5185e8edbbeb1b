"""The distribution `LogisticNormal`."""

from __future__ import annotations

from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor


__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Logistic normal distribution over vectors of `k` probabilities.

    It transforms `k - 1` normal variables by a `StickBreakingTransform`.

    Args:
        loc: Means, of shape `(*, k - 1)`.
        scale: Standard deviations, of shape `(*, k - 1)`.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.LogisticNormal(torch.zeros(2), torch.ones(2))
        >>> d.sample().shape
        torch.Size([3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _expanded: dict[str, int] = {}

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Means of the normal variables."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviations of the normal variables."""
        return self.base_dist.base_dist.scale
