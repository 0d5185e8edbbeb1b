"""Orders of contraction: ``torch.einsum`` contracts from left to right, and never uses the package opt_einsum."""

import sys
import types

from ._absent import during, is_available as is_available, setter

enabled = False
strategy = None


class _Checked(types.ModuleType):
    """The module. It refuses settings that would have no effect, in PyTorch's words."""

    def __setattr__(self, name, value):
        if name == "enabled" and value:
            raise ValueError(
                f"opt_einsum is not available, so setting `enabled` to {value} will not reap the benefits of "
                "calculating an optimal path for einsum. torch.einsum will fall back to contracting from left to "
                "right. To enable this optimal path calculation, please install opt-einsum."
            )
        if name == "strategy" and value is not None:
            raise ValueError(
                f"opt_einsum is not available, so setting `strategy` to {value} will not be meaningful. torch.einsum "
                "will bypass path calculation and simply contract from left to right. Please install opt_einsum or "
                "unset `strategy`."
            )
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Checked

_set = setter(__name__, ("enabled", "strategy"))


def get_opt_einsum():
    """Always return `None`: this library does not use the package."""
    return None


def set_flags(_enabled=None, _strategy=None):
    """Set the switches that are not `None`, and return the old values."""
    return _set(_enabled, _strategy)


def flags(enabled=None, strategy=None):
    """Context manager that sets the switches."""
    return during(set_flags, enabled, strategy)
