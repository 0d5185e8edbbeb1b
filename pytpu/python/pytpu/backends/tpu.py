"""The accelerator. Libraries look for this module to learn the kind of `torch`."""

import sys
import types

from ..tpu import is_available as is_available


def is_built():
    """Return `True`: every build has device `tpu`, whether or not a plugin is installed."""
    return True


_OPTION = "xla_allow_excess_precision"


class _Module(types.ModuleType):
    @property
    def allow_excess_precision(self):
        """Whether the compiler of an accelerator may leave out the rounding of a 16-bit value that wider ops read.

        It is `False` by default, so that values are rounded as in PyTorch.
        """
        from ..tpu.compiler import _of_backend

        return bool(_of_backend.get(_OPTION, False))

    @allow_excess_precision.setter
    def allow_excess_precision(self, allowed):
        from ..tpu import compiler

        if not isinstance(allowed, bool):
            raise RuntimeError(f"allow_excess_precision expects a bool, but got {type(allowed).__name__}")
        if allowed:
            compiler._of_backend[_OPTION] = True
        else:
            compiler._of_backend.pop(_OPTION, None)
        compiler._set()


sys.modules[__name__].__class__ = _Module
