"""Splitting a module into stages.

Only modules that run their children one after the other can be split here: the order of calls in other modules is known
by `torch.export` alone, which is not part of this package.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytpu as torch

from ...nn import Module, Sequential
from .stage import PipelineStage, build_stage


@dataclass
class PipeInfo:
    """What a stage has to know of a `Pipe`.

    Args:
        num_stages: Number of stages.
        has_loss_and_backward: Whether the module computes a loss and its backward itself.
    """

    num_stages: int
    has_loss_and_backward: bool


class SplitPoint(enum.Enum):
    """Where a module begins a new stage: before it, or after it."""

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """Mark the beginning of a new stage in the forward of a module. A call has no effect: only a tracer reads it."""


def _runs_in_order(module: Module) -> bool:
    """Whether the forward of a module is that of `Sequential`."""
    return isinstance(module, Sequential) and type(module).forward is Sequential.forward


def _cut(module: Module, path: str, spec: dict[str, SplitPoint], found: set[str]) -> list[Module]:
    """Return the parts of a module, in their order. The names of parameters stay as they are."""
    if not _runs_in_order(module):
        return [module]
    parts: list[OrderedDict[str, Module]] = [OrderedDict()]
    for name, child in module.named_children():
        full = f"{path}.{name}" if path else name
        point = spec.get(full)
        if point is not None:
            found.add(full)
        pieces = _cut(child, full, spec, found)
        if point == SplitPoint.BEGINNING and parts[-1]:
            parts.append(OrderedDict())
        parts[-1][name] = pieces[0]
        parts.extend(OrderedDict([(name, piece)]) for piece in pieces[1:])
        if point == SplitPoint.END:
            parts.append(OrderedDict())
    filled = [part for part in parts if part]
    return [module] if len(filled) <= 1 else [Sequential(part) for part in filled]


class Pipe(Module):
    """A module that has been split into stages. `pipeline` makes it.

    Args:
        stages: Modules of the stages.
    """

    def __init__(self, stages: list[Module]) -> None:
        super().__init__()
        self.num_stages = len(stages)
        self.has_loss_and_backward = False
        self.split_gm = Sequential(OrderedDict((f"submod_{index}", stage) for index, stage in enumerate(stages)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run all stages in this process, one after the other."""
        value = self.get_stage_module(0)(*args, **kwargs)
        for index in range(1, self.num_stages):
            value = self.get_stage_module(index)(value)
        return value

    def get_stage_module(self, stage_idx: int) -> Module:
        """Return the module of a stage.

        Args:
            stage_idx: Index of the stage.

        Raises:
            ValueError: If there is no such stage.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return self.split_gm.get_submodule(f"submod_{stage_idx}")

    def info(self) -> PipeInfo:
        """Return what `build_stage` has to know."""
        return PipeInfo(num_stages=self.num_stages, has_loss_and_backward=self.has_loss_and_backward)

    def build_stage(self, stage_index: int, device: torch.device, group: Any = None) -> PipelineStage:
        """Make a stage.

        Args:
            stage_index: Index of the stage.
            device: Device of the stage. Its module is moved there.
            group: Process group of the pipeline. The default is the default group.
        """
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable | None = None,
) -> Pipe:
    """Split a module into stages.

    Args:
        module: An `nn.Sequential`. Children that are split must be ones too.
        mb_args: Example arguments of a microbatch. They are not used: nothing is traced.
        mb_kwargs: Example keyword arguments. They are not used.
        split_spec: Names of submodules, each with the place at which a new stage begins.
        split_policy: Must be `None`.

    Returns:
        The stages.

    Raises:
        NotImplementedError: If `split_policy` is given, or a split is inside a module that is no `nn.Sequential`.
        ValueError: If there is no submodule of a name, or `split_spec` and `split_policy` are both given.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributed.pipelining import SplitPoint, pipeline
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> pipe = pipeline(model, (torch.ones(1, 4),), split_spec={"2": SplitPoint.BEGINNING})
        >>> pipe.num_stages
        2
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    if split_policy is not None:
        raise NotImplementedError(
            "torch.distributed.pipelining.pipeline: split_policy: needs a graph by torch.export, which is not part of "
            "this package"
        )
    spec = split_spec or {}
    for name in spec:
        try:
            module.get_submodule(name)
        except AttributeError as error:
            raise ValueError(f"split_spec: there is no submodule {name}") from error
    found: set[str] = set()
    stages = _cut(module, "", spec, found)
    if missing := sorted(spec.keys() - found):
        raise NotImplementedError(
            f"torch.distributed.pipelining.pipeline: split_spec: {', '.join(missing)} is inside a module that is no "
            "nn.Sequential. To find the order of its calls needs torch.export, which is not part of this package. Make "
            "a PipelineStage of each part instead."
        )
    return Pipe(stages)
