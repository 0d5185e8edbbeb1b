"""The result of ``torch.compile`` for a module."""

import functools

from . import _C
from .compiler import _calls
from .nn import Module


def around(f):
    """Return a function that calls `f` as a compiled function.

    Without gradients, each call is one program: the recorded ops are cut before and after the call. With gradients the
    ops of forward, backward and optimizer stay together, and the end of the step cuts them.
    """

    @functools.wraps(f)
    def call(*args, **kwargs):
        is_cut = not _C.is_grad_enabled()
        if is_cut:
            _C._tpu_mark_step()
        _calls.depth += 1
        try:
            return f(*args, **kwargs)
        finally:
            _calls.depth -= 1
            if is_cut:
                _C._tpu_mark_step()

    return call


class OptimizedModule(Module):
    """A module that is called as a compiled function: see `around`.

    It wraps the module ``_orig_mod``, and has its parameters.
    """

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
