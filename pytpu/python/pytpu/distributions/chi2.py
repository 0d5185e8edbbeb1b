"""The distribution `Chi2`."""

from __future__ import annotations

from . import constraints
from .gamma import Gamma

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor


__all__ = ["Chi2"]


class Chi2(Gamma):
    """Chi-squared distribution: sum of `df` squares of standard normal variables.

    It is `Gamma(df / 2, 1 / 2)`.

    Args:
        df: Degrees of freedom, positive.
        validate_args: If `True`, check parameters and values. `None` is the default that is set.

    Raises:
        ValueError: If a parameter does not satisfy its constraint.

    Example:
        >>> import pytpu as torch
        >>> d = torch.distributions.Chi2(torch.tensor(3.0))
        >>> d.mean
        tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}
    _expanded = Gamma._expanded

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
