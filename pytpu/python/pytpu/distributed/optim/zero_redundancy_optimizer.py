"""An optimizer whose state is divided among the ranks (ZeRO, Rajbhandari et al. 2019, arXiv:1910.02054)."""

from __future__ import annotations

from collections.abc import Iterable

import pytpu as torch
from pytpu import distributed as dist

from ...optim import Optimizer
from ..algorithms.join import Join, Joinable, JoinHook, _JoinState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .. import ProcessGroup

__all__ = ["ZeroRedundancyOptimizer"]


def _broadcast_object(
    obj: Any,
    src_rank: int,
    group: ProcessGroup | None = None,
    device: torch.device | None = None,
) -> Any:
    """Return the object of a rank on all ranks.

    Args:
        obj: the object of the global rank `src_rank`, with tensors. Others pass anything.
        src_rank: the global rank.
        group: the ranks. The default is the group of all ranks.
        device: the device of the tensors in the result. The default is `cpu`.
    """
    from ..utils import _apply_to_tensors

    shared = [_apply_to_tensors(lambda tensor: tensor.detach().cpu(), obj) if dist.get_rank() == src_rank else None]
    dist.broadcast_object_list(shared, src=src_rank, group=group)
    return _apply_to_tensors(lambda tensor: tensor.to(device or "cpu"), shared[0])


def _as_list(params: Any) -> list[Any]:
    """Return the parameters or parameter groups, if they are some."""
    what = "`params` argument should be an iterable of Tensors"
    if isinstance(params, torch.Tensor):
        raise TypeError(f"{what}, but got {torch.typename(params)}")
    if not isinstance(params, Iterable):
        raise TypeError(f"{what} or dicts, but got {torch.typename(params)}")
    items = list(params)
    if not items:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    # A tuple is a parameter with its name.
    if not all(isinstance(item, (torch.Tensor, dict, tuple)) for item in items):
        raise TypeError(f"{what} or dicts")
    return items


class _StepOfOthers(JoinHook):
    """Stands in for the steps of ranks that have data left."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        self._optimizer._step(None, {})


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Give each rank a part of the parameters. It steps an optimizer for them, and sends them to the other ranks.

    Each parameter belongs to one rank, the largest first to the rank with the fewest elements so far.

    Args:
        params: parameters, or parameter groups. They are the same on all ranks.
        optimizer_class: the class of the optimizer of a rank.
        process_group: the group. `None` means the default one.
        parameters_as_bucket_view: not used: parameters are sent from where they are.
        overlap_with_ddp: not supported.
        **defaults: arguments of `optimizer_class`.

    Attributes:
        optim: The optimizer of this rank.

    Raises:
        NotImplementedError: `overlap_with_ddp` is set.
        TypeError: `params` is no iterable of tensors or parameter groups.
        ValueError: there are no parameters.

    Example:
        >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)  # doctest: +SKIP
    """

    def __init__(
        self,
        params: Iterable[torch.Tensor] | Iterable[dict[str, Any]],
        optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not implemented")
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.rank = dist.get_rank(self.process_group)
        self.world_size = dist.get_world_size(self.process_group)
        #: The elements that each rank has, and the rank of each parameter.
        self._loads = [0] * self.world_size
        self._owners: dict[int, int] = {}
        self._merged: dict[str, Any] | None = None
        self._optimizer_class, self._arguments = optimizer_class, defaults
        self._join_state = _JoinState()
        self.optim: Optimizer | None = None
        Optimizer.__init__(self, _as_list(params), defaults)
        own = [self._own_group(group) for group in self.param_groups]
        self.optim = optimizer_class(own, **defaults)
        self._copy_settings(self.optim.param_groups, self.param_groups)

    def _own_group(self, group: dict[str, Any]) -> dict[str, Any]:
        """Return the part of a parameter group that belongs to this rank."""
        return group | {"params": [p for p in group["params"] if self._owners[id(p)] == self.rank]}

    @property
    def _all_params(self) -> list[torch.Tensor]:
        """The parameters of all ranks, in their order."""
        return [p for group in self.param_groups for p in group["params"]]

    @staticmethod
    def _copy_settings(sources: list[dict[str, Any]], targets: list[dict[str, Any]]) -> None:
        """Copy what parameter groups have besides their parameters, such as learning rates."""
        for source, target in zip(sources, targets, strict=True):
            target.update((name, value) for name, value in source.items() if name != "params")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, and divide them among the ranks.

        Args:
            param_group: the parameters and their settings, the same on all ranks.
        """
        Optimizer.add_param_group(self, param_group)
        group = self.param_groups[-1]
        for p in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
            owner = self._loads.index(min(self._loads))
            self._loads[owner] += p.numel()
            self._owners[id(p)] = owner
        if self.optim is not None:
            self.optim.add_param_group(self._own_group(group))
            self._copy_settings(self.optim.param_groups[-1:], [group])

    def step(self, closure: Callable[[], float] | None = None, **kwargs: Any) -> float | None:
        """Step the parameters of this rank, and get those of the other ranks.

        Args:
            closure: a function that computes the loss again.
            **kwargs: further arguments of the optimizer's `step`.

        Returns:
            The loss of `closure`, or `None`.
        """
        Join.notify_join_context(self)
        return self._step(closure, kwargs)

    def _step(self, closure: Callable[[], float] | None, kwargs: dict[str, Any]) -> float | None:
        # Schedulers and users change the settings of this object.
        self._copy_settings(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        self._copy_settings(self.optim.param_groups, self.param_groups)
        self._merged = None
        self._share()
        return loss

    def _share(self) -> None:
        """Send each parameter from its rank to the others."""
        from .._methods import _on_device

        kinds: dict[Any, list[torch.Tensor]] = {}
        for p in (p for group in self.param_groups for p in group["params"]):
            kinds.setdefault((self._owners[id(p)], str(p.device), str(p.dtype)), []).append(p.detach())
        for kind in sorted(kinds, key=str):
            tensors = kinds[kind]
            _on_device(self.process_group, tensors[0]).broadcast(tensors, kind[0], (False, None, None))

    def _numbers(self) -> dict[int, int]:
        """Return the number of each parameter, as in a state dictionary."""
        return {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the states of all ranks on one rank, whose `state_dict` can then be called.

        Args:
            to: the rank of the group that gets the states.
        """
        self._copy_settings(self.param_groups, self.optim.param_groups)
        numbers = self._numbers()
        own = {numbers[id(p)]: state for p, state in self.optim.state.items()}
        parts: list[Any] | None = [None] * self.world_size if self.rank == to else None
        root = dist.get_global_rank(self.process_group, to)
        dist.gather_object(own, parts, dst=root, group=self.process_group)
        if parts is not None:
            states = {number: state for part in parts for number, state in part.items()}
            self._merged = {"state": dict(sorted(states.items()))}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all parameters, as the optimizer would in one process.

        Raises:
            RuntimeError: `consolidate_state_dict` was not called for this rank since the last step.
        """
        if self._merged is None:
            raise RuntimeError(
                f"Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.rank})` on all ranks beforehand if you meant to save the global state."
            )
        numbers = self._numbers()
        groups = [group | {"params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups]
        return {"state": self._merged["state"], "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the part of a state dictionary that belongs to this rank.

        Args:
            state_dict: the state of all parameters.
        """
        self._copy_settings(state_dict["param_groups"], self.param_groups)
        numbers, states, groups = self._numbers(), {}, []
        count = 0
        for group, own in zip(state_dict["param_groups"], self.optim.param_groups, strict=True):
            for p in own["params"]:
                if numbers[id(p)] in state_dict["state"]:
                    states[count] = state_dict["state"][numbers[id(p)]]
                count += 1
            groups.append(group | {"params": list(range(count - len(own["params"]), count))})
        self.optim.load_state_dict({"state": states, "param_groups": groups})
        self._merged = None

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook with which `Join` stands in for this optimizer.

        Args:
            **kwargs: not used.
        """
        return _StepOfOthers(self)

    @property
    def join_device(self) -> torch.device:
        """The device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group of the ranks."""
        return self.process_group
