"""Schedules that rise and fall in cycles."""

from __future__ import annotations

import math

from ..optimizer import Optimizer
from .base import LRScheduler, _copied, _per_group, _set

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from pytpu import Tensor


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
