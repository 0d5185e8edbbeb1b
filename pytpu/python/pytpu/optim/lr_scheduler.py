"""Learning-rate schedules."""

from __future__ import annotations

import functools
import math
import warnings
import weakref
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

import pytpu as torch

from .optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Literal, SupportsFloat

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


_LRScheduler = LRScheduler


def _lambdas(optimizer, lr_lambda, name):
    if not isinstance(lr_lambda, (list, tuple)):
        return [lr_lambda] * len(optimizer.param_groups)
    if len(lr_lambda) != len(optimizer.param_groups):
        raise ValueError(f"Expected {len(optimizer.param_groups)} lr_lambdas, but got {len(lr_lambda)}")
    return list(lr_lambda)


class _LambdaBased(LRScheduler):
    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = optimizer
        self.lr_lambdas = _lambdas(optimizer, lr_lambda, type(self).__name__)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule without the optimizer.

        For functions, only the attributes of objects are saved.
        """
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if callable(fn) and hasattr(fn, "__code__") else fn.__dict__.copy() for fn in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned. Plain functions stay as they are.

        Args:
            state_dict: State of a schedule of the same kind.
        """
        state_dict = dict(state_dict)
        saved = state_dict.pop("lr_lambdas")
        self.__dict__.update(state_dict)
        for fn, attributes in zip(self.lr_lambdas, saved):
            if attributes is not None:
                fn.__dict__.update(attributes)


class LambdaLR(_LambdaBased):
    """Multiply the initial learning rate by a function of the epoch.

    The rate is `lr_lambda(epoch) * initial_lr`.

    Args:
        optimizer: Optimizer whose learning rates change.
        lr_lambda: Function of the epoch number, or a list with one function per group.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Raises:
        ValueError: If the number of functions is not the number of groups.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        return [base * fn(self.last_epoch) for fn, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_LambdaBased):
    """Multiply the last learning rate by a function of the epoch.

    Args:
        optimizer: Optimizer whose learning rates change.
        lr_lambda: Function of the epoch number, or a list with one function per group.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Raises:
        ValueError: If the number of functions is not the number of groups.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        return [lr * fn(self.last_epoch) for fn, lr in zip(self.lr_lambdas, self._current(), strict=True)]


class StepLR(LRScheduler):
    """Multiply the learning rate by `gamma` every `step_size` epochs.

    Args:
        optimizer: Optimizer whose learning rates change.
        step_size: Number of epochs between two changes.
        gamma: Factor of each change.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates += schedule.get_last_lr()
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._current()
        return [lr * self.gamma for lr in self._current()]

    def _get_closed_form_lr(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply the learning rate by `gamma` at each milestone.

    Args:
        optimizer: Optimizer whose learning rates change.
        milestones: Epoch numbers. A number that occurs twice counts twice.
        gamma: Factor of each change.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates += schedule.get_last_lr()
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._current()
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._current()]

    def _get_closed_form_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiply the initial learning rate by `factor` in the first `total_iters` epochs.

    Args:
        optimizer: Optimizer whose learning rates change.
        factor: Factor in `[0, 1]`.
        total_iters: Number of epochs with the factor.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Raises:
        ValueError: If `factor` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> rates = []
        >>> for _ in range(3):
        ...     rates += schedule.get_last_lr()
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [0.5, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._current()]
        if self.last_epoch != self.total_iters:
            return self._current()
        return [lr * (1.0 / self.factor) for lr in self._current()]

    def _get_closed_form_lr(self):
        active = self.last_epoch < self.total_iters
        return [base * (self.factor + (not active) * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Multiply the initial learning rate by a factor that changes linearly.

    Args:
        optimizer: Optimizer whose learning rates change.
        start_factor: Factor of the first epoch, in `(0, 1]`.
        end_factor: Factor from epoch `total_iters` on, in `[0, 1]`.
        total_iters: Number of epochs of the change.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Raises:
        ValueError: If a factor is out of its range.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> rates = []
        >>> for _ in range(3):
        ...     rates += schedule.get_last_lr()
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [0.5, 0.75, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._current()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        slope = self.end_factor - self.start_factor
        ratio = 1.0 + slope / (self.total_iters * self.start_factor + (self.last_epoch - 1) * slope)
        return [lr * ratio for lr in self._current()]

    def _get_closed_form_lr(self):
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * done) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply the learning rate by `gamma` every epoch.

    Args:
        optimizer: Optimizer whose learning rates change.
        gamma: Factor of each change.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        return [lr * self.gamma for lr in self._current()]

    def _get_closed_form_lr(self):
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Let the learning rate fall to 0 as a power of the remaining epochs.

    The rate is `initial_lr * (1 - epoch / total_iters) ** power`.

    Args:
        optimizer: Optimizer whose learning rates change.
        total_iters: Number of epochs until the rate is 0.
        power: Power of the remaining part. `1.0` is a straight line.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2, power=2.0)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.25]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [lr * (left / before) ** self.power for lr in self._current()]

    def _get_closed_form_lr(self):
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - done) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Let the learning rate fall from the initial rate to `eta_min` along half a cosine.

    The rate is `eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2`. It rises again after `T_max`
    epochs.

    Args:
        optimizer: Optimizer whose learning rates change.
        T_max: Number of epochs until `eta_min`.
        eta_min: Smallest rate.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> optimizer.step()
        >>> schedule.step()
        >>> round(schedule.get_last_lr()[0], 6)
        0.5

    Source:
        Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        if self._step_count == 1 and self.last_epoch > 0:
            return [
                self.eta_min + (base - self.eta_min) * (1 + math.cos(self.last_epoch * math.pi / self.T_max)) / 2
                for base in self.base_lrs
            ]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The ratio below has a zero denominator at the bottom of the curve.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            rates = zip(self.base_lrs, self._current(), strict=True)
            return [lr + (base - self.eta_min) * rise for base, lr in rates]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (lr - self.eta_min) + self.eta_min for lr in self._current()]

    def _get_closed_form_lr(self):
        return [
            self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
            for base in self.base_lrs
        ]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Let the learning rate fall along half a cosine, and start again at the initial rate.

    The first period takes `T_0` epochs. Each period is `T_mult` times as long as the one before.

    Args:
        optimizer: Optimizer whose learning rates change.
        T_0: Number of epochs of the first period, at least 1.
        T_mult: Ratio of a period to the one before, at least 1.
        eta_min: Smallest rate.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Raises:
        ValueError: If `T_0`, `T_mult` or `eta_min` has another type or is out of its range.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(schedule.get_last_lr()[0], 6))
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 0.5, 1.0, 0.5]

    Source:
        Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        return [
            self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
            for base in self.base_lrs
        ]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to `epoch`, and set its learning rates.

        Args:
            epoch: Epoch to go to. It may have a fraction, which follows the cosine within an epoch.

        Raises:
            ValueError: If `epoch` is negative.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            n: float
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            if epoch < self.T_0:
                self.T_i, self.T_cur = self.T_0, epoch
            elif self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
                self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
                self.T_i = self.T_0 * self.T_mult**n
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
                _set(group, "lr", lr)
        finally:
            self._get_lr_called_within_step = False
        self._last_lr = self._current()


class CyclicLR(LRScheduler):
    """Move the learning rate up and down between two bounds, once per batch.

    Args:
        optimizer: Optimizer whose learning rates change.
        base_lr: Lower bound of all groups, or a list with one bound per group.
        max_lr: Upper bound of all groups, or a list with one bound per group.
        step_size_up: Number of batches from the lower to the upper bound.
        step_size_down: Number of batches back. `None` is `step_size_up`.
        mode: How the height of a cycle changes. `"triangular"` keeps it, `"triangular2"` halves it each cycle, and
            `"exp_range"` multiplies it by `gamma` each batch.
        gamma: Factor of `"exp_range"`.
        scale_fn: Function that gives the relative height. It replaces `mode`.
        scale_mode: Argument of `scale_fn`: the number of the `"cycle"`, or of the batch (`"iterations"`).
        cycle_momentum: If `True`, the momentum (or `beta1`) goes down while the rate goes up.
        base_momentum: Lower bound of the momentum, for all groups or as a list.
        max_momentum: Upper bound of the momentum, for all groups or as a list.
        last_epoch: Number of the last batch. `-1` starts a schedule.

    Raises:
        TypeError: If `optimizer` is not an `Optimizer`.
        ValueError: If `mode` is unknown, a list has the wrong length, or the optimizer has no momentum to cycle.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
        >>> schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=1.0, max_lr=3.0, step_size_up=2)
        >>> rates = []
        >>> for _ in range(5):
        ...     rates += schedule.get_last_lr()
        ...     optimizer.step()
        ...     schedule.step()
        >>> rates
        [1.0, 2.0, 3.0, 2.0, 1.0]

    Source:
        Smith, "Cyclical Learning Rates for Training Neural Networks", 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        base_lrs = _per_group(base_lr, optimizer, "base_lr")
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups):
                _set(group, "lr", lr)
        self.max_lrs = _per_group(max_lr, optimizer, "max_lr")
        up = float(step_size_up)
        down = float(step_size_down) if step_size_down is not None else up
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = _per_group(base_momentum, optimizer, "base_momentum")
            self.max_momentums = _per_group(max_momentum, optimizer, "max_momentum")
            if last_epoch == -1:
                for high, low, group in zip(self.max_momentums, self.base_momentums, optimizer.param_groups):
                    if self.use_beta1:
                        group["betas"] = (_copied(high), *group["betas"][1:])
                    else:
                        group["momentum"] = _copied(high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the height of a cycle, relative to the first cycle.

        Args:
            x: Number of the cycle, or of the batch, as `scale_mode` says.
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        lrs = [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs)]
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                momentum = high - (high - low) * height * scale
                if self.use_beta1:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return lrs


def _phase(end_step, start_lr, end_lr, start_momentum, end_momentum):
    """Return a phase of `OneCycleLR`: its last step, and the options that it goes from and to."""
    return {
        "end_step": end_step,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


class OneCycleLR(LRScheduler):
    """Raise the learning rate to `max_lr` once, then let it fall far below the initial rate.

    Call `step` once per batch. The initial rate is `max_lr / div_factor`, and the final rate is
    `initial_lr / final_div_factor`.

    Args:
        optimizer: Optimizer whose learning rates change.
        max_lr: Largest rate of all groups, or a list with one rate per group.
        total_steps: Number of batches. `None` is `epochs * steps_per_epoch`.
        epochs: Number of epochs.
        steps_per_epoch: Number of batches per epoch.
        pct_start: Part of the batches in which the rate rises, as a `float` in `[0, 1]`.
        anneal_strategy: Shape of the changes: `"cos"` or `"linear"`.
        cycle_momentum: If `True`, the momentum (or `beta1`) goes down while the rate goes up.
        base_momentum: Smallest momentum, for all groups or as a list.
        max_momentum: Largest momentum, for all groups or as a list.
        div_factor: Ratio of the largest rate to the initial rate.
        final_div_factor: Ratio of the initial rate to the final rate.
        three_phase: If `True`, fall to the initial rate first, as fast as the rise, then to the final rate.
        last_epoch: Number of the last batch. `-1` starts a schedule.

    Raises:
        TypeError: If `optimizer` is not an `Optimizer`.
        ValueError: If the number of steps is not given or not positive, another argument is out of its range, or
            the optimizer has no momentum to cycle. In `step`: after more than `total_steps` steps.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
        >>> schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
        >>> round(schedule.get_last_lr()[0], 6)
        0.04

    Source:
        Smith and Topin, "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates", 2019.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if total_steps is not None:
            if total_steps <= 0 or not isinstance(total_steps, int):
                raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
            self.total_steps = total_steps
        elif epochs is not None and steps_per_epoch is not None:
            if not isinstance(epochs, int) or epochs <= 0:
                raise ValueError(f"Expected positive integer epochs, but got {epochs}")
            if not isinstance(steps_per_epoch, int) or steps_per_epoch <= 0:
                raise ValueError(f"Expected positive integer steps_per_epoch, but got {steps_per_epoch}")
            self.total_steps = epochs * steps_per_epoch
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        up = float(pct_start * self.total_steps) - 1
        last = self.total_steps - 1
        if three_phase:
            down = float(2 * pct_start * self.total_steps) - 2
            self._schedule_phases = [
                _phase(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                _phase(down, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                _phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._schedule_phases = [
                _phase(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                _phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        self._anneal_func_type = anneal_strategy
        max_lrs = _per_group(max_lr, optimizer, "max_lr")
        if last_epoch == -1:
            for high, group in zip(max_lrs, optimizer.param_groups):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
            self.use_beta1 = "betas" in optimizer.defaults
            highs = _per_group(max_momentum, optimizer, "max_momentum")
            lows = _per_group(base_momentum, optimizer, "base_momentum")
            if last_epoch == -1:
                for high, low, group in zip(highs, lows, optimizer.param_groups):
                    self._set_momentum(group, high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)

    def _set_momentum(self, group, value):
        value = _copied(value)
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def _anneal(self, start, end, pct):
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)
        return (end - start) * pct + start

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the current epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        lrs = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, phase in enumerate(self._schedule_phases):
                end = phase["end_step"]
                if step <= end or i == len(self._schedule_phases) - 1:
                    pct = (step - start) / (end - start)
                    lrs.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], pct))
                    if self.cycle_momentum:
                        momenta = group[phase["start_momentum"]], group[phase["end_momentum"]]
                        self._set_momentum(group, self._anneal(*momenta, pct))
                    break
                start = end
        return lrs


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
