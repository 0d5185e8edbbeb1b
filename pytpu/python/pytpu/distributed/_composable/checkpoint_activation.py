"""`checkpoint`: computing the activations of a module again in backward."""

from __future__ import annotations

import functools

from ...nn import Module
from ...utils.checkpoint import checkpoint as _checkpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["checkpoint"]

#: The attribute of modules that `checkpoint` has changed.
_KEY = "_checkpoint_of_activations"


def checkpoint(module: Module, **kwargs: Any) -> Module:
    """Let the forward of a module keep no activations, and return the module. Backward computes them again.

    The module keeps its class and the names of its parameters.

    Args:
        module: the module.
        kwargs: arguments of `torch.utils.checkpoint.checkpoint`, except for `use_reentrant`, which is `False`.

    Raises:
        NotImplementedError: for `use_reentrant=True`.
        AssertionError: if it was applied to the module before.
    """
    options = dict(kwargs)
    if options.pop("use_reentrant", False):
        raise NotImplementedError(
            "use_reentrant=True is not supported in composable checkpoint. "
            "Please use torch.utils.checkpoint.checkpoint instead."
        )
    if _KEY in module.__dict__:
        raise AssertionError(
            "Each distinct composable distributed API can only be applied to a module once. Trying to apply checkpoint "
            f"to the following module {module}"
        )
    module.__dict__[_KEY] = True
    # Hooks of the module run around it.
    module.__dict__["forward"] = functools.partial(_checkpoint, module.forward, use_reentrant=False, **options)
    return module
