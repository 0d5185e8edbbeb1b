"""What the messages of a pipeline look like, and on which ranks stages are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytpu as torch


class PipeliningMetadataError(RuntimeError):
    """Tensors that a stage gets or makes are not those that were agreed on."""


@dataclass(frozen=True)
class _Meta:
    """Shape and dtype of a tensor that is sent, and whether its gradient is sent back."""

    shape: torch.Size
    dtype: torch.dtype
    grad: bool

    def fits(self, tensor: torch.Tensor) -> bool:
        """Whether `tensor` has this shape and dtype."""
        return tensor.shape == self.shape and tensor.dtype == self.dtype

    def zeros(self, device: torch.device) -> torch.Tensor:
        """Return a tensor of zeros, which are valid indices too."""
        return torch.zeros(self.shape, dtype=self.dtype, device=device)

    def __str__(self) -> str:
        return f"shape {tuple(self.shape)} and dtype {self.dtype}"


def _metas(tensors: Iterable[torch.Tensor]) -> tuple[_Meta, ...]:
    """Describe tensors."""
    return tuple(_Meta(tensor.shape, tensor.dtype, tensor.requires_grad) for tensor in tensors)


def _as_tensors(value: Any) -> tuple[torch.Tensor, ...]:
    """Return what a stage takes or returns as a tuple of tensors. Raise an error if it is anything else."""
    if isinstance(value, torch.Tensor):
        return (value,)
    if not isinstance(value, (tuple, list)):
        raise PipeliningMetadataError(
            f"Stage args must be a tensor, tuple, or list of tensors, got {type(value).__name__}."
        )
    for index, part in enumerate(value):
        if not isinstance(part, torch.Tensor):
            raise PipeliningMetadataError(
                f"Stage arg[{index}] has type {type(part).__name__}. All stage args must be tensors. "
                "Use kwargs for non-tensor inputs."
            )
    return tuple(value)


def _differences(expected: Sequence[_Meta], found: Sequence[_Meta]) -> list[str]:
    """Say where tensors differ from examples."""
    if len(expected) != len(found):
        return [f": {len(expected)} examples, but {len(found)} tensors"]
    return [
        f"[{index}]: the example has {want}, the tensor has {got}"
        for index, (want, got) in enumerate(zip(expected, found))
        if str(want) != str(got)
    ]


def _ranks_of_stages(ranks: int, stages: int, style: str = "loop") -> dict[int, int]:
    """Return the rank of each stage.

    Args:
        ranks: Number of ranks.
        stages: Number of stages.
        style: `"loop"` goes round the ranks. `"v"` turns back at the last rank and at the first rank.

    Example:
        >>> from pytpu.distributed.pipelining._shapes import _ranks_of_stages
        >>> _ranks_of_stages(2, 4, style="v")
        {0: 0, 1: 1, 2: 1, 3: 0}
    """
    way = [*range(ranks)] if style == "loop" else [*range(ranks), *reversed(range(ranks))]
    return {stage: way[stage % len(way)] for stage in range(stages)}


def _stages_of_ranks(ranks: int, stages: int, style: str = "loop") -> dict[int, list[int]]:
    """Return the stages of each rank, in their order. The arguments are those of `_ranks_of_stages`."""
    found: dict[int, list[int]] = {rank: [] for rank in range(ranks)}
    for stage, rank in _ranks_of_stages(ranks, stages, style).items():
        found[rank].append(stage)
    return found
