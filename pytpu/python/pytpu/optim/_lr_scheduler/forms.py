"""Schedules with a formula: a function of the step without cycles."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter

from ..optimizer import Optimizer
from .base import LRScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from pytpu import Tensor


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
