"""Activation checkpointing as a wrapper of modules."""

import enum

from .... import nn
from ....utils.checkpoint import checkpoint

_PREFIX = "_checkpoint_wrapped_module"


class CheckpointImpl(enum.Enum):
    """Kinds of checkpointing."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class CheckpointWrapper(nn.Module):
    """A module whose activations are computed again in backward. Its parameters have the module's names."""

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
        super().__init__()
        setattr(self, _PREFIX, mod)
        self._implementation, self._function, self._options = checkpoint_impl, checkpoint_fn, checkpoint_fn_kwargs
        self._register_state_dict_hook(self._without_prefix)
        self.register_load_state_dict_pre_hook(self._with_prefix)

    @staticmethod
    def _without_prefix(module, state, prefix, metadata):
        for name in [k for k in state if k.startswith(f"{prefix}{_PREFIX}.")]:
            state[prefix + name[len(prefix) + len(_PREFIX) + 1 :]] = state.pop(name)

    @staticmethod
    def _with_prefix(module, state, prefix, *rest):
        for name in [k for k in state if k.startswith(prefix)]:
            state[f"{prefix}{_PREFIX}.{name[len(prefix) :]}"] = state.pop(name)

    def named_parameters(self, *args, **kwargs):
        """Yield parameters under the names that they have in the module."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{_PREFIX}.", ""), parameter

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_PREFIX), name)

    def forward(self, *args, **kwargs):
        """Run the module under a checkpoint."""
        module = getattr(self, _PREFIX)
        if self._function is not None:
            return self._function(module, *args, **self._options, **kwargs)
        return checkpoint(
            module, *args, use_reentrant=self._implementation is CheckpointImpl.REENTRANT, **self._options, **kwargs
        )


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
    """Return a module that checkpoints the activations of a module."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda _: True, auto_wrap_policy=None
):
    """Wrap the submodules for which `check_fn(module)` is true."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if check_fn(child) and not isinstance(parent, CheckpointWrapper):
                setattr(parent, name, checkpoint_wrapper_fn(child))
