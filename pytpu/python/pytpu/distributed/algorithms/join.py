"""Training in which some ranks run out of data earlier than others."""

from __future__ import annotations

import abc
import warnings

import pytpu as torch
from pytpu import distributed as dist

from ...nn.parallel.distributed import DistributedDataParallel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .. import ProcessGroup, Work

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a rank that has run out of data does so that the others can go on."""

    def main_hook(self) -> None:
        """Take part in the collectives of one step of the other ranks. It is called once for each such step."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Finish, once all ranks have run out of data.

        Args:
            is_last_joiner: whether this rank was one of the last.
        """


class Joinable(abc.ABC):
    """An object whose collectives `Join` can stand in for, such as `DistributedDataParallel`.

    Its methods call `Join.notify_join_context` before the first collective of a step.
    """

    @abc.abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_state = _JoinState()

    @abc.abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook that stands in for this object. `kwargs` are those of `Join`."""

    @property
    @abc.abstractmethod
    def join_device(self) -> torch.device:
        """The device of the collectives of `Join`."""

    @property
    @abc.abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """The group of the collectives of `Join`."""


class _JoinState:
    """What an object knows about the `Join` that it is in. Outside of one, nothing is on."""

    def __init__(self, is_joined: bool = False, throws: bool = False, speaks: bool = False) -> None:
        self.is_joined, self.throws, self.speaks = is_joined, throws, speaks


class Join:
    """Let ranks run different numbers of steps. Ranks that end first stand in for the collectives of the others.

    Args:
        joinables: the objects with collectives, all of one group and device.
        enable: whether the context does anything.
        throw_on_early_termination: whether all ranks raise `RuntimeError` when the first one has run out of data.
        **kwargs: arguments of `join_hook` of the objects.

    Raises:
        ValueError: there are no objects, or they have different groups or devices.
        TypeError: an object is no `Joinable`.
    """

    #: Steps of other ranks after which this rank warns.
    _MANY_STEPS = 1000

    def __init__(
        self,
        joinables: Sequence[Joinable | DistributedDataParallel],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        for joinable in joinables:
            if not isinstance(joinable, Joinable):
                raise TypeError(f"join: {type(joinable).__name__}, must be a Joinable")
        groups = {id(joinable.join_process_group): joinable.join_process_group for joinable in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        devices = {joinable.join_device for joinable in joinables}
        if len(devices) > 1:
            raise ValueError("Using join context manager with multiple devices")
        self._joinables, self._enable, self._throws = joinables, enable, throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        (self._group,), (self._device,) = groups.values(), devices
        self._rank = dist.get_rank(self._group)
        for i, joinable in enumerate(joinables):
            joinable._join_state = _JoinState(enable, throw_on_early_termination, i == 0)

    def __enter__(self) -> None:
        """Do nothing: the objects know the context."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Stand in for the collectives of ranks that have data left."""
        if self._enable and kind is None:
            self._stand_in()
        for joinable in self._joinables:
            joinable._join_state = _JoinState()

    def _stand_in(self) -> None:
        is_last, steps = True, 0
        while self._count_active() > 0:
            if self._throws:
                self._say_ended()
            if steps == self._MANY_STEPS:
                warnings.warn(
                    f"Detected uneven input skew of greater than {self._MANY_STEPS}. This means that rank {self._rank} "
                    f"has at least {self._MANY_STEPS} fewer inputs than other currently-active ranks. This level of "
                    "skew could lead to performance degradation during training.",
                    stacklevel=3,
                )
            for hook in self._hooks:
                hook.main_hook()
            is_last, steps = False, steps + 1
        for hook in self._hooks:
            hook.post_hook(is_last)

    def _count_active(self) -> int:
        count = torch.zeros(1, device=self._device)
        dist.all_reduce(count, group=self._group)
        return int(count.item())

    def _say_ended(self) -> None:
        dist.all_reduce(torch.zeros(1, device=self._device), group=self._group)
        raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")

    @staticmethod
    def notify_join_context(joinable: Joinable | DistributedDataParallel) -> Work | None:
        """Tell ranks without data that this rank begins a step.

        Args:
            joinable: the object that begins. Only the first of a context speaks.

        Returns:
            The `Work` of the collective, or `None` if nothing was said.

        Raises:
            RuntimeError: another rank has run out of data, and the context has `throw_on_early_termination`.
        """
        state = joinable._join_state
        if not state.is_joined or not state.speaks:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        work = dist.all_reduce(torch.ones(1, device=device), group=group, async_op=True)
        if state.throws:
            left = torch.ones(1, device=device)
            # A rank that has run out of data sees that others go on, and then adds its zero.
            dist.all_reduce(left, group=group)
            if int(left.item()) < dist.get_world_size(group):
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work


Joinable.register(DistributedDataParallel)
