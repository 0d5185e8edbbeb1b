"""Objects that average parameters over ranks now and then."""

from __future__ import annotations

import abc

from pytpu import distributed as dist

from . import utils

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .... import nn
    from ... import ProcessGroup

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(abc.ABC):
    """An object that averages parameters in some of the steps.

    Args:
        process_group: the group. `None` means the default one.
    """

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.step = 0

    @abc.abstractmethod
    def average_parameters(self, params: Iterable[nn.Parameter] | Iterable[dict[str, Any]]) -> None:
        """Count a step, and average the parameters if it is their turn."""


class PeriodicModelAverager(ModelAverager):
    """Average parameters in each `period`-th step, after `warmup_steps`.

    Args:
        period: the number of steps between two averages.
        warmup_steps: the number of first steps without averages.
        process_group: the group. `None` means the default one.

    Raises:
        ValueError: `period` or `warmup_steps` is out of range.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: ProcessGroup | None = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[nn.Parameter] | Iterable[dict[str, Any]]) -> None:
        """Count a step, and average the parameters with gradients if it is their turn.

        Args:
            params: parameters, or parameter groups of an optimizer.
        """
        since = self.step - self.warmup_steps
        if since >= 0 and since % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
