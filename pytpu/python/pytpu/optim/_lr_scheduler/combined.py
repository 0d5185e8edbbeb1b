"""Schedules made of other schedules, and the schedule that follows a metric."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right

from ..optimizer import Optimizer
from .base import EPOCH_DEPRECATION_WARNING, LRScheduler, _copied, _set

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal, SupportsFloat


def _check_schedulers(name, schedulers, optimizer):
    """Check schedules that run inside another: one optimizer, and `step` without arguments."""
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                f"kwargs to be specified when calling `step`, but got one at index {i} in the given schedulers "
                "sequence."
            )
        if optimizer != scheduler.optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, which is different from "
                f"{type(optimizer).__name__}."
            )


class SequentialLR(LRScheduler):
    """Run several schedules one after the other.

    Args:
        optimizer: Optimizer of all schedules.
        schedulers: Schedules, in order.
        milestones: Epochs at which the next schedule starts, one fewer than there are schedules.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Raises:
        TypeError: If a schedule has no optimizer.
        ValueError: If there is no schedule, one has another optimizer or is a `ReduceLROnPlateau`, or the number of
            milestones is wrong.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> warmup = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[2])
        >>> rates = []
        >>> for _ in range(4):
        ...     rates += schedule.get_last_lr()
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [0.5, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        _check_schedulers(type(self).__name__, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every schedule has taken its first step: undo them all, then take the step of the first schedule.
        for group in optimizer.param_groups:
            _set(group, "lr", group["initial_lr"])
        for scheduler in schedulers:
            self._undo(scheduler)
        schedulers[0]._step_count = 0
        schedulers[0]._is_initial = True
        schedulers[0].step()
        schedulers[0]._is_initial = False
        self._last_lr = schedulers[0].get_last_lr()

    @classmethod
    def _undo(cls, scheduler):
        if isinstance(scheduler, SequentialLR):
            for inner in scheduler._schedulers:
                cls._undo(inner)
        elif not isinstance(scheduler, ChainedScheduler):
            scheduler.last_epoch -= 1
        else:
            for inner in scheduler._schedulers:
                cls._undo(inner)

    def step(self) -> None:  # type: ignore[override]  # PyTorch's signature.
        """Go to the next epoch, with the schedule of that epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule without the optimizer."""
        return _nested_state_dict(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned.

        Args:
            state_dict: State of a schedule of the same kind.
        """
        _load_nested_state_dict(self, state_dict)


def _nested_state_dict(scheduler):
    state = {k: v for k, v in scheduler.__dict__.items() if k not in ("optimizer", "_schedulers")}
    state["_schedulers"] = [inner.state_dict() for inner in scheduler._schedulers]
    return state


def _load_nested_state_dict(scheduler, state_dict):
    state_dict = dict(state_dict)
    inner_states = state_dict.pop("_schedulers")
    scheduler.__dict__.update(state_dict)
    for inner, state in zip(scheduler._schedulers, inner_states):
        inner.load_state_dict(state)


class ChainedScheduler(LRScheduler):
    """Run several schedules at once. Each changes the learning rate that the one before set.

    Args:
        schedulers: Schedules of one optimizer.
        optimizer: Optimizer of all schedules. `None` is that of the first schedule.

    Raises:
        TypeError: If a schedule has no optimizer.
        ValueError: If there is no schedule, or one has another optimizer or is a `ReduceLROnPlateau`.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> first = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=5)
        >>> second = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> schedule = torch.optim.lr_scheduler.ChainedScheduler([first, second])
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        _check_schedulers(type(self).__name__, schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = [_copied(group["lr"]) for group in optimizer.param_groups]

    def step(self) -> None:  # type: ignore[override]  # PyTorch's signature.
        """Go to the next epoch of every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = [_copied(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule without the optimizer."""
        return _nested_state_dict(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned.

        Args:
            state_dict: State of a schedule of the same kind.
        """
        _load_nested_state_dict(self, state_dict)


class ReduceLROnPlateau(LRScheduler):
    """Multiply the learning rate by `factor` when a metric has stopped improving.

    Args:
        optimizer: Optimizer whose learning rates change.
        mode: `"min"` if smaller metrics are better, `"max"` if larger ones are.
        factor: Factor of each reduction, less than 1.
        patience: Number of epochs without improvement that are allowed.
        threshold: Smallest change that counts as an improvement.
        threshold_mode: `"rel"` for a threshold relative to the best metric, `"abs"` for a difference.
        cooldown: Number of epochs after a reduction in which no epoch counts as bad.
        min_lr: Smallest rate of all groups, or a list with one rate per group.
        eps: A reduction by `eps` or less is left out.

    Raises:
        TypeError: If `optimizer` is not an `Optimizer`.
        ValueError: If `factor`, `mode` or `threshold_mode` is out of its range, or `min_lr` has the wrong length.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
        >>> rates = []
        >>> for loss in (3.0, 3.0, 3.0, 1.0):
        ...     schedule.step(loss)
        ...     rates += schedule.get_last_lr()
        >>> rates
        [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.factor = factor
        self.optimizer = optimizer
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != len(optimizer.param_groups):
                raise ValueError(f"expected {len(optimizer.param_groups)} min_lrs, got {len(min_lr)}")
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * len(optimizer.param_groups)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.last_epoch = 0
        self._last_lr = [_copied(group["lr"]) for group in optimizer.param_groups]
        self._reset()

    def _reset(self):
        self.best = math.inf if self.mode == "min" else -math.inf
        self.mode_worse = self.best
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]  # PyTorch's.
        """Take the metric of an epoch, and reduce the learning rates if it is time.

        Args:
            metrics: Metric of the epoch.
            epoch: Number of the epoch. `None` is the next one. Deprecated: other values give a warning.

        Raises:
            RuntimeError: If groups were added to the optimizer after `min_lr` was given as a list.
        """
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = [_copied(group["lr"]) for group in self.optimizer.param_groups]

    def _reduce_lr(self, epoch):
        if len(self.optimizer.param_groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    "The number of param groups in the `optimizer` "
                    f"({len(self.optimizer.param_groups)}) differs from when `ReduceLROnPlateau` was initialized "
                    f"({len(self.min_lrs)}), usually due to a new param group being added to the optimizer. Please "
                    "modify the `min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(self.optimizer.param_groups)
        for group, floor in zip(self.optimizer.param_groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, floor)
            if old - new > self.eps:
                _set(group, "lr", new)

    @property
    def in_cooldown(self):
        """Return whether the cooldown after a reduction is still running."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Return whether `a` improves on `best` by more than the threshold.

        Args:
            a: New metric.
            best: Best metric so far.
        """
        if self.threshold_mode == "rel":
            return a < best * (1.0 - self.threshold) if self.mode == "min" else a > best * (1.0 + self.threshold)
        return a < best - self.threshold if self.mode == "min" else a > best + self.threshold
