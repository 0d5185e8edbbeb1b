"""Exponential families."""

from __future__ import annotations

import pytpu as torch

from .distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor


__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Base class of exponential families: densities of the form `exp(<t(x), theta> - F(theta) + k(x))`.

    A subclass defines the natural parameters `theta`, the function `F`, and the mean of `k`. The entropy follows from
    them.
    """

    @property
    def _natural_params(self):
        """Natural parameters, a tuple of tensors."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        """Return the function `F` of the natural parameters."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        """Mean of `k(x)`."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        # H = F - <theta, grad F> - E[k], since E[t] is the gradient of F.
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        slopes = torch.autograd.grad(normalizer.sum(), params, create_graph=True)
        entropy = normalizer - self._mean_carrier_measure
        for param, slope in zip(params, slopes, strict=True):
            entropy = entropy - (param * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return entropy
