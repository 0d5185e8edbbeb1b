"""The result of ``torch.compile`` for a module."""

import functools

from . import _C
from .nn import Module


def around(f):
    """Return a function that makes each call of `f` one program: the recorded ops are cut before and after the call."""

    @functools.wraps(f)
    def call(*args, **kwargs):
        _C._tpu_mark_step()
        try:
            return f(*args, **kwargs)
        finally:
            _C._tpu_mark_step()

    return call


class OptimizedModule(Module):
    """A module each call of which is one program. It wraps the module ``_orig_mod``, and has its parameters."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module

    def _module(self):
        """The module, or ``None`` while this object is being made or copied."""
        return self.__dict__.get("_modules", {}).get("_orig_mod")

    def forward(self, *args, **kwargs):
        return around(self._orig_mod.__call__)(*args, **kwargs)

    @property
    def training(self):
        module = self._module()
        return True if module is None else module.training

    @training.setter
    def training(self, mode):
        if self._module() is not None:
            self._module().training = mode

    def __getattr__(self, name):
        module = self._module()
        if module is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return module if name == "_orig_mod" else getattr(module, name)

    def __setattr__(self, name, value):
        # A method that a program replaces, such as `state_dict`, is one of this object.
        if name == "_orig_mod" or hasattr(type(self), name) or self._module() is None:
            super().__setattr__(name, value)
        else:
            setattr(self._module(), name, value)

    def __delattr__(self, name):
        if hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)
