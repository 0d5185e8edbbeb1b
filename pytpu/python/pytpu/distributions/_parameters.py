"""Parameters that distributions share: probabilities and logits, of which one is given, and values that do not exist everywhere."""

import pytpu as torch

from .utils import lazy_property, logits_to_probs, probs_to_logits


def one_of(probs, logits):
    """Raises ValueError unless exactly one is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class ProbsOrLogits:
    """`probs` and `logits`, of ones if `_is_binary`, else of classes along the last dimension."""

    _is_binary = True

    @lazy_property
    def logits(self):
        """The logits."""
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self):
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def _param(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._param.size()


class OfCategorical:
    """`probs` and `logits` of a `Categorical` that a distribution is made of, `_categorical`."""

    @property
    def probs(self):
        """The probabilities of classes."""
        return self._categorical.probs

    @property
    def logits(self):
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def _param(self):
        return self._categorical._param

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._categorical.param_shape


class OfBase:
    """`temperature`, `probs` and `logits` of the base of a transformed distribution."""

    @property
    def temperature(self):
        """The temperature."""
        return self.base_dist.temperature

    @property
    def probs(self):
        """The probabilities."""
        return self.base_dist.probs

    @property
    def logits(self):
        """The logits."""
        return self.base_dist.logits


def nan_where(mask, value):
    """A value, and NaN where `mask` is true."""
    return torch.where(mask, torch.nan, value)


def inf_where(mask, value):
    """A value, and infinity where `mask` is true."""
    return torch.where(mask, torch.inf, value)
