"""An optimizer that averages parameters over ranks now and then."""

from __future__ import annotations

import warnings

from ...optim import Optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Step another optimizer, and let an averager average the parameters after each step.

    Args:
        optim: the optimizer.
        averager: the averager, such as `PeriodicModelAverager`. The state dictionary has its step.
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self) -> Any:
        """The state of the optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer, and the step of the averager under `"step"`."""
        return self.optim.state_dict() | {"step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` has returned.

        Args:
            state_dict: the state. Without a step, the averager begins again.
        """
        self.optim.load_state_dict(state_dict)
        self.param_groups = self.optim.param_groups
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Any = None) -> Any:
        """Step the optimizer, then let the averager count the step.

        Args:
            closure: a function that computes the loss again.

        Returns:
            The loss of `closure`, or `None`.
        """
        loss = self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters.

        Args:
            set_to_none: whether gradients become `None` instead of zero.
        """
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters.

        Args:
            param_group: the parameters and their settings.
        """
        self.optim.add_param_group(param_group)
