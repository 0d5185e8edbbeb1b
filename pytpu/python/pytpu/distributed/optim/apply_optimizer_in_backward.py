"""Optimizers that step within backward, as soon as the gradient of a parameter is known."""

from __future__ import annotations

import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ... import Tensor, nn
    from ...optim import Optimizer
    from ...utils.hooks import RemovableHandle

__all__: list[str] = []

#: The hooks of each parameter, by which a wrapper can take them away.
param_to_optim_hook_handle_map: weakref.WeakKeyDictionary[Tensor, list[RemovableHandle]] = weakref.WeakKeyDictionary()


def _optimizers_of(parameter: Tensor) -> list[Optimizer]:
    """Return what `_apply_optimizer_in_backward` has set."""
    return getattr(parameter, "_in_backward_optimizers", [])


def _step(parameter: Tensor) -> None:
    for optimizer in _optimizers_of(parameter):
        optimizer.step()
    parameter.grad = None


def _apply_optimizer_in_backward(
    optimizer_class: type[Optimizer],
    params: Iterable[nn.Parameter],
    optimizer_kwargs: dict[str, Any],
    register_hook: bool = True,
) -> None:
    """Make an optimizer for each parameter, which steps when backward has accumulated the gradient.

    The gradient is `None` after that, so no other optimizer changes the parameter. A parameter may have several
    optimizers, which step in the order in which they were made.

    Args:
        optimizer_class: the class of the optimizers.
        params: the parameters.
        optimizer_kwargs: arguments of each optimizer.
        register_hook: whether they step by themselves. Without it, `_get_in_backward_optimizers` finds them.
    """
    for parameter in params:
        optimizer = optimizer_class([parameter], **optimizer_kwargs)
        attributes = {
            "_in_backward_optimizers": optimizer,
            "_optimizer_classes": optimizer_class,
            "_optimizer_kwargs": optimizer_kwargs,
        }
        for name, value in attributes.items():
            if not hasattr(parameter, name):
                setattr(parameter, name, [])
            getattr(parameter, name).append(value)
        handles = param_to_optim_hook_handle_map.setdefault(parameter, [])
        if register_hook and not handles:
            handles.append(parameter.register_post_accumulate_grad_hook(_step))


def _get_in_backward_optimizers(module: nn.Module) -> list[Optimizer]:
    """Return the optimizers of a module's parameters that step within backward, such as for a checkpoint.

    Args:
        module: the module.
    """
    return [optimizer for parameter in module.parameters() for optimizer in _optimizers_of(parameter)]
