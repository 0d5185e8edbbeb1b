"""Exponential families."""

import pytpu as torch

from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions of the density `exp(<t(x), theta> - F(theta) + k(x))`.

    Subclasses state the natural parameters `theta`, the function `F` and the mean of `k`; entropies follow from them.
    """

    @property
    def _natural_params(self):
        """The natural parameters, a tuple of tensors."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        """The function `F`."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        """The expected value of `k`."""
        raise NotImplementedError

    def entropy(self):
        # H = F - <theta, grad F> - E[k], since E[t] is the gradient of F.
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        slopes = torch.autograd.grad(normalizer.sum(), params, create_graph=True)
        entropy = normalizer - self._mean_carrier_measure
        for param, slope in zip(params, slopes, strict=True):
            entropy = entropy - (param * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return entropy
