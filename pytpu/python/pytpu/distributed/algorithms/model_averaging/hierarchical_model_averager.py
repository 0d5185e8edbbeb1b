"""Averages over groups of growing size, the larger ones more rarely."""

from __future__ import annotations

from pytpu import distributed as dist

from . import averagers, utils

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .... import nn
    from ... import ProcessGroup

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(averagers.ModelAverager):
    """Average parameters within groups of ranks. Each size of groups has its period.

    Args:
        period_group_size_dict: the size of the groups for each period, both rising. The last size is that of the group.
        warmup_steps: the number of first steps without averages.
        process_group: the group. `None` means the default one.

    Raises:
        ValueError: periods, sizes or `warmup_steps` do not fit.

    Example:
        >>> HierarchicalModelAverager({2: 4, 8: 16})  # doctest: +SKIP
    """

    def __init__(
        self,
        period_group_size_dict: dict[int, int] | None = None,
        warmup_steps: int = 0,
        process_group: ProcessGroup | None = None,
    ) -> None:
        super().__init__(process_group)
        sizes = dict(period_group_size_dict or {})
        if not sizes:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        world = dist.get_world_size(self.process_group)
        periods, counts = list(sizes), list(sizes.values())
        if periods[0] <= 0 or periods != sorted(set(periods)):
            raise ValueError(f"period_group_size_dict: periods {periods}, must be positive and rising")
        if counts[0] <= 0 or counts != sorted(set(counts)):
            raise ValueError(f"period_group_size_dict: sizes {counts}, must be positive and rising")
        if counts[-1] != world:
            raise ValueError(
                f"The last value in arg ``period_process_group_dict`` {counts[-1]} must be equal to "
                f"the size of arg ``process_group`` {world}."
            )
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps
        #: The group for each period, rising.
        self.period_process_group_dict = {
            period: self.process_group if count == world else dist.new_subgroups(count)[0]
            for period, count in sizes.items()
        }

    def average_parameters(self, params: Iterable[nn.Parameter] | Iterable[dict[str, Any]]) -> None:
        """Count a step, and average within the largest groups whose turn it is.

        Args:
            params: parameters, or parameter groups of an optimizer.
        """
        if self.step >= self.warmup_steps:
            for period, group in reversed(self.period_process_group_dict.items()):
                if self.step % period == 0:
                    utils.average_parameters_or_parameter_groups(params, group)
                    break
        self.step += 1
