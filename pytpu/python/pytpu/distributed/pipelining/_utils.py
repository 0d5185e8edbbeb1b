"""Descriptions of the tensors that stages exchange, and the ranks of stages."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytpu as torch

from ...utils._pytree import tree_flatten, tree_unflatten


class PipeliningMetadataError(RuntimeError):
    """Tensors that a stage gets or makes are not those that were agreed on."""


@dataclass(frozen=True)
class _TensorMeta:
    """Shape, stride, dtype of a tensor, and whether it requires a gradient."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool

    @staticmethod
    def from_tensor(tensor: torch.Tensor) -> _TensorMeta:
        """Describe a tensor."""
        return _TensorMeta(tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)

    def empty(self, device: torch.device | str) -> torch.Tensor:
        """Return a contiguous tensor to receive into, which requires no gradient."""
        return torch.empty(self.shape, dtype=self.dtype, device=device)

    def to_tensor(self, device: torch.device | str) -> torch.Tensor:
        """Return a tensor of this description. It is zero, which is a valid index too."""
        tensor = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=device).zero_()
        return tensor.requires_grad_(self.requires_grad) if tensor.is_floating_point() else tensor

    def get_diff(self, other: _TensorMeta) -> list[str]:
        """Say what differs from `other`. Whether a gradient is required may differ: that depends on the mode."""
        return [
            f"{name} mismatch: {getattr(self, name)} vs {getattr(other, name)}"
            for name in ("shape", "stride", "dtype")
            if getattr(self, name) != getattr(other, name)
        ]


def _grad_meta(meta: _TensorMeta) -> _TensorMeta | None:
    """Describe the gradient of a tensor. ``None`` if it has none."""
    return _TensorMeta(meta.shape, meta.stride, meta.dtype, False) if meta.requires_grad else None


def _describe(tensors: Iterable[torch.Tensor]) -> tuple[_TensorMeta, ...]:
    """Describe tensors."""
    return tuple(map(_TensorMeta.from_tensor, tensors))


def validate_and_normalize_to_tuple(args: Any, allow_none: bool = False) -> tuple[Any, ...] | None:
    """Return the tensors of a stage as a tuple.

    Args:
        args: A tensor, a tuple or list of tensors, or ``None``, which stays ``None``.
        allow_none: Whether entries may be ``None``.

    Raises:
        PipeliningMetadataError: If there is anything else.
    """
    if args is None:
        return None
    if isinstance(args, torch.Tensor):
        return (args,)
    if not isinstance(args, (tuple, list)):
        raise PipeliningMetadataError(
            f"Stage args must be a tensor, tuple, or list of tensors, got {type(args).__name__}."
        )
    for index, arg in enumerate(args):
        if arg is None and not allow_none:
            raise PipeliningMetadataError(
                f"Stage arg[{index}] is None. Stage args must be tensors. Use kwargs for optional values."
            )
        if arg is not None and not isinstance(arg, torch.Tensor):
            raise PipeliningMetadataError(
                f"Stage arg[{index}] has type {type(arg).__name__}. All stage args must be tensors. "
                "Use kwargs for non-tensor inputs."
            )
    return tuple(args)


def validate_tensors_metadata(
    desc: str,
    expected: Sequence[_TensorMeta | None],
    actual: Sequence[torch.Tensor | _TensorMeta | None],
    *,
    raise_on_mismatch: bool = True,
    warn_on_mismatch: bool = False,
) -> list[str]:
    """Compare tensors with their description.

    Args:
        desc: Beginning of messages.
        expected: Descriptions.
        actual: Tensors, or their descriptions.
        raise_on_mismatch: Raise an error at the first difference.
        warn_on_mismatch: Warn of each difference.

    Returns:
        The differences.

    Raises:
        PipeliningMetadataError: If there is a difference and `raise_on_mismatch`.
    """
    found: list[str] = []

    def report(where: str, differences: list[str]) -> None:
        if not differences:
            return
        found.extend(differences)
        text = f"{where}: {'; '.join(differences)}"
        if raise_on_mismatch:
            raise PipeliningMetadataError(text)
        if warn_on_mismatch:
            warnings.warn(f"{text}. Using dynamically inferred metadata instead.", UserWarning, stacklevel=4)

    if len(expected) != len(actual):
        report(desc, [f"expected {len(expected)} tensors, got {len(actual)}"])
        return found
    for index, (want, got) in enumerate(zip(expected, actual)):
        where = f"{desc}[{index}]"
        if isinstance(got, torch.Tensor):
            got = _TensorMeta.from_tensor(got)
        if want is None and got is None:
            continue
        if want is None or got is None:
            names = ["None" if meta is None else "metadata" for meta in (want, got)]
            report(where, [f"expected {names[0]}, got {names[1]}"])
        else:
            report(where, want.get_diff(got))
    return found


def flatten_args(args: Any, *, detach: bool = False) -> Any:
    """Return the leaves of nested arguments.

    Args:
        args: Nested arguments.
        detach: Detach the tensors. Leaves then require a gradient if the tensors did.

    Returns:
        The list of leaves. With `detach`, the arguments with the new tensors, and the list.
    """
    leaves, form = tree_flatten(args)
    if not detach:
        return leaves
    leaves = [
        leaf.detach().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ]
    return tree_unflatten(leaves, form), leaves


def generate_stage_to_rank_mapping(pp_size: int, num_stages: int, style: str = "loop") -> dict[int, int]:
    """Return the rank of each stage.

    Args:
        pp_size: Number of ranks.
        num_stages: Number of stages.
        style: ``"loop"`` goes round the ranks. ``"v"`` turns back at the last rank and at the first rank.

    Raises:
        ValueError: If `style` is another one, or a V has stages left over.

    Example:
        >>> from pytpu.distributed.pipelining._utils import generate_stage_to_rank_mapping
        >>> generate_stage_to_rank_mapping(2, 4, style="v")
        {0: 0, 1: 1, 2: 1, 3: 0}
    """
    if style == "loop":
        return {stage: stage % pp_size for stage in range(num_stages)}
    if style != "v":
        raise ValueError(f"Style {style} is not supported.")
    if num_stages % pp_size != 0:
        raise ValueError(f"num_stages {num_stages} must be evenly divisible by pp_size {pp_size} for V schedules")
    there_and_back = [*range(pp_size), *reversed(range(pp_size))]
    return {stage: there_and_back[stage % (2 * pp_size)] for stage in range(num_stages)}


def generate_rank_to_stage_mapping(pp_size: int, num_stages: int, style: str = "loop") -> dict[int, list[int]]:
    """Return the stages of each rank, in their order.

    Args:
        pp_size: Number of ranks.
        num_stages: Number of stages.
        style: ``"loop"`` or ``"v"``, as for `generate_stage_to_rank_mapping`.
    """
    stages: dict[int, list[int]] = {}
    for stage, rank in generate_stage_to_rank_mapping(pp_size, num_stages, style).items():
        stages.setdefault(rank, []).append(stage)
    return stages


@dataclass
class PipeInfo:
    """What a stage has to know of a `Pipe`.

    Args:
        graph: Always ``None``: a module is split without a graph.
        num_stages: Number of stages.
        has_loss_and_backward: Whether the module computes a loss and its backward itself.
    """

    graph: None
    num_stages: int
    has_loss_and_backward: bool
