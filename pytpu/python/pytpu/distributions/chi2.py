"""Sums of squares of normal variables."""

from . import constraints
from .gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of `df` squares: `Gamma(df / 2, 1 / 2)`."""

    arg_constraints = {"df": constraints.positive}
    _expanded = Gamma._expanded

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self):
        """The degrees of freedom."""
        return self.concentration * 2
