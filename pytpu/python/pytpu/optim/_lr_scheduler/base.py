"""The base class of schedules."""

from __future__ import annotations

import functools
import warnings
import weakref

import pytpu as torch

from ..optimizer import Optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytpu import Tensor


EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form "
    "is used instead of the new chainable form, where available. Please open an issue if you are unable to replicate "
    "your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)


def _set(group, key, value):
    """Set an option. A tensor is changed in place, so that a compiled step uses the new value."""
    if isinstance(group[key], torch.Tensor):
        group[key].fill_(float(value))
    else:
        # Copy: the next change is in place, and must not change the bounds of the schedule.
        group[key] = _copied(value)


def _copied(value):
    return value.clone() if isinstance(value, torch.Tensor) else value


def _per_group(value, optimizer, name):
    if isinstance(value, (list, tuple)):
        if len(value) != len(optimizer.param_groups):
            raise ValueError(f"expected {len(optimizer.param_groups)} values for {name}, got {len(value)}")
        return list(value)
    return [value] * len(optimizer.param_groups)


class LRScheduler:
    """Base class of schedules, which change the learning rates of an optimizer.

    A subclass defines `get_lr`. Call `step` once per epoch (or per batch), after the step of the optimizer. Creating a
    schedule takes its first step.

    Args:
        optimizer: Optimizer whose learning rates change.
        last_epoch: Number of the last epoch. `-1` starts a schedule. Otherwise the groups must hold `"initial_lr"`.

    Raises:
        TypeError: If `optimizer` is not an `Optimizer`.
        KeyError: If `last_epoch` is not `-1` and a group has no `"initial_lr"`.

    Example:
        >>> import pytpu as torch
        >>> class HalfLR(torch.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [base / 2**self.last_epoch for base in self.base_lrs]
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = HalfLR(optimizer)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", _copied(group["lr"]))
        else:
            for i, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                        f"last_epoch >= 0.\nThis typically happens when:\n"
                        "1. You're trying to resume training from a checkpoint but haven't properly loaded the "
                        "optimizer "
                        "state\n2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                    )
        self.base_lrs = [_copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._count_optimizer_steps()
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def _count_optimizer_steps(self):
        # Note that the optimizer has stepped, for the warning about the order of steps.
        optimizer = self.optimizer
        if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
            return
        optimizer._opt_called = False
        reference, step = weakref.ref(optimizer), optimizer.step.__func__

        @functools.wraps(step)
        def noted(*args, **kwargs):
            optimizer = reference()
            optimizer._opt_called = True
            return step(optimizer, *args, **kwargs)

        noted._wrapped_by_lr_sched = True
        optimizer.step = noted

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule without the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned.

        Args:
            state_dict: State of a schedule of the same kind.
        """
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float | Tensor]:
        """Return the learning rates that the last step set, one per group."""
        return self._last_lr

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, and set its learning rates.

        Args:
            epoch: Epoch to go to. `None` is the next one. Deprecated: other values give a warning.
        """
        if self._step_count == 1 and not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure "
                "to call `optimizer.step()` before `lr_scheduler.step()`. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                UserWarning,
                stacklevel=2,
            )
        elif self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should "
                "call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this "
                "will result in PyTorch skipping the first value of the learning rate schedule. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = closed() if closed is not None else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            _set(group, "lr", lr)
        self._last_lr = [_copied(group["lr"]) for group in self.optimizer.param_groups]

    def _warn_outside_step(self):
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _current(self):
        return [_copied(group["lr"]) for group in self.optimizer.param_groups]
