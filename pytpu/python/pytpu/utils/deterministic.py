"""`torch.utils.deterministic`: a switch for memory that was not written."""

import sys
import types


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        """Return whether new memory is filled where deterministic algorithms are asked for.

        Results here never depend on it.
        """
        return self.__dict__.get("_fill", True)

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        if not isinstance(mode, bool):
            raise RuntimeError(f"set_fill_uninitialized_memory expects a bool, but got {type(mode).__name__}")
        self.__dict__["_fill"] = mode


sys.modules[__name__].__class__ = _Deterministic
