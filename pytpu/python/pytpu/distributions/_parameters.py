"""Parameters that several distributions share: `probs` and `logits`, with exactly one given, and masked values."""

from __future__ import annotations

from typing import Any

import pytpu as torch

from .utils import lazy_property, logits_to_probs, probs_to_logits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor


def one_of(probs: object, logits: object) -> None:
    """Raise `ValueError` unless exactly one of `probs` and `logits` is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class ProbsOrLogits:
    """Distribution with `probs` and `logits`.

    With `_is_binary` they belong to the value 1, otherwise to classes along the last dimension.
    """

    _is_binary = True

    @lazy_property
    def logits(self) -> Tensor:
        """Logits."""
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def _param(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> torch.Size:
        """Shape of the parameter."""
        return self._param.size()


class OfCategorical:
    """Distribution with the `probs` and `logits` of its `_categorical`."""

    _categorical: Any

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logits."""
        return self._categorical.logits

    @property
    def _param(self):
        return self._categorical._param

    @property
    def param_shape(self) -> torch.Size:
        """Shape of the parameter."""
        return self._categorical.param_shape


class OfBase:
    """Distribution with `temperature`, `probs` and `logits` of the base of a transformed distribution."""

    base_dist: Any

    @property
    def temperature(self) -> Tensor:
        """Temperature."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs

    @property
    def logits(self) -> Tensor:
        """Logits."""
        return self.base_dist.logits


def nan_where(mask: Tensor, value: Tensor) -> Tensor:
    """Return `value`, and NaN where `mask` is true."""
    return torch.where(mask, torch.nan, value)


def inf_where(mask: Tensor, value: Tensor) -> Tensor:
    """Return `value`, and infinity where `mask` is true."""
    return torch.where(mask, torch.inf, value)
