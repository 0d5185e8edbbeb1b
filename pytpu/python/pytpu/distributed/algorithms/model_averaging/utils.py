"""Functions that average parameters over the ranks of a group."""

from __future__ import annotations

import pytpu as torch
from pytpu import distributed as dist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ... import ProcessGroup

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterable[torch.Tensor], process_group: ProcessGroup | None) -> None:
    """Average parameters in place, by one collective for each dtype.

    Args:
        params: the parameters.
        process_group: the group. `None` means the default one.
    """
    group = dist.group.WORLD if process_group is None else process_group
    if dist._rank_not_in_group(group):
        return
    kinds: dict[Any, list[torch.Tensor]] = {}
    for param in params:
        kinds.setdefault((param.device, param.dtype), []).append(param.detach())
    for tensors in kinds.values():
        row = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(row, dist.ReduceOp.AVG, group=group)
        for tensor, mean in zip(tensors, row.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view(tensor.shape))


def get_params_to_average(params: Iterable[torch.nn.Parameter] | Iterable[dict[str, Any]]) -> list[torch.nn.Parameter]:
    """Return the parameters that have a gradient.

    Args:
        params: parameters, or parameter groups of an optimizer.

    Raises:
        NotImplementedError: an item is neither.
    """
    return [param for param in _flat(params) if param.grad is not None]


def _flat(params: Iterable[Any]) -> Iterator[torch.nn.Parameter]:
    for item in params:
        if isinstance(item, torch.nn.Parameter):
            yield item
        elif isinstance(item, dict):
            yield from item["params"]
        else:
            raise NotImplementedError(f"Parameter input of type {type(item)} is not supported")


def average_parameters_or_parameter_groups(
    params: Iterable[torch.nn.Parameter] | Iterable[dict[str, Any]], process_group: ProcessGroup | None
) -> None:
    """Average the parameters that have a gradient.

    Args:
        params: parameters, or parameter groups of an optimizer.
        process_group: the group. `None` means the default one.
    """
    average_parameters(get_params_to_average(params), process_group)
