"""The result of `torch.compile` for a module."""

import functools

from . import _C
from .compiler import _calls
from .nn import Module


def around(f):
    """Return a function that calls `f` as a compiled function.

    Without gradients, each call is one program: the recorded ops are cut before and after the call. With gradients the
    ops of forward, backward and optimizer stay together, and the end of the step cuts them.
    """
    from .compiler import _stance

    @functools.wraps(f)
    def call(*args, **kwargs):
        if _stance.stance != "default" or _stance.backend is not None:
            return _by_stance(f, args, kwargs)
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

    call._torchdynamo_orig_callable = f
    return call


def _by_stance(f, args, kwargs):
    """Call a function as `torch.compiler.set_stance` says."""
    from .compiler import _stance

    if _stance.stance == "force_eager":
        return f(*args, **kwargs)
    if _stance.backend is not None:
        from ._dynamo._capture import Compiled

        return Compiled(f, _stance.backend, str(_stance.backend), False)(*args, **kwargs)
    _calls.depth += 1
    try:
        return f(*args, **kwargs)
    finally:
        _calls.depth -= 1


class _ByBackend:
    """A backend with its settings, which makes a function of a module's call."""

    def __init__(self, backend, name, fullgraph, limit=None):
        self.settings = backend, name, fullgraph, limit

    def __call__(self, f):
        from ._dynamo._capture import Compiled

        compiled = Compiled(f, *self.settings)

        @functools.wraps(f)
        def call(*args, **kwargs):
            return compiled(*args, **kwargs)

        call._torchdynamo_orig_callable = f
        call._compiled = compiled
        return call


class OptimizedModule(Module):
    """A module that is called as a compiled function: see `around`.

    It wraps the module `_orig_mod`, and has its parameters.

    Args:
        module: the module.
        call: a function that takes the place of its call.
        by: what makes a compiled function of its call, instead of `around`.
    """

    def __init__(self, module, call=None, by=None):
        super().__init__()
        self._orig_mod = module
        self.__dict__["_how"] = by
        self.__dict__["_call"] = call

    def _module(self):
        """The module, or `None` while this object is being made or copied."""
        return self.__dict__.get("_modules", {}).get("_orig_mod")

    def forward(self, *args, **kwargs):
        call = self.__dict__.get("_call")
        if call is None:
            how = self.__dict__.get("_how")
            if how is None:
                return around(self._orig_mod.__call__)(*args, **kwargs)
            call = self.__dict__["_call"] = how(self._orig_mod.__call__)
        return call(*args, **kwargs)

    def __getstate__(self):
        # The compiled call belongs to this module. A copy makes its own.
        state = self.__dict__.copy()
        if state.get("_how") is not None:
            state["_call"] = None
        return state

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
