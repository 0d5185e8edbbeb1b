"""Averages of a model's parameters over training."""

from __future__ import annotations

import math
import warnings
from copy import deepcopy

import pytpu as torch
from pytpu import _C
from pytpu.nn import Module

from .lr_scheduler import LRScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal

    from pytpu import Tensor
    from pytpu.optim import Optimizer

    PARAM_LIST = tuple[Tensor, ...] | list[Tensor]


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay):
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Tensor | int], Tensor]:
    """Return the update of an exponential moving average, for `avg_fn` of `AveragedModel`.

    The update is `decay * average + (1 - decay) * current`.

    Args:
        decay: Weight of the old average, in `[0, 1]`.

    Returns:
        A function of the average, the current parameter and the number of averaged models.

    Raises:
        ValueError: If `decay` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> update = torch.optim.swa_utils.get_ema_avg_fn(0.75)
        >>> update(torch.tensor(4.0), torch.tensor(8.0), 1)
        tensor(5.)
    """
    _check_decay(decay)

    def update(average, current, count):
        return decay * average + (1 - decay) * current

    return torch.no_grad()(update)


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[PARAM_LIST, PARAM_LIST, Tensor | int], None]:
    """Return the update of `get_ema_avg_fn` for lists, for `multi_avg_fn` of `AveragedModel`.

    Args:
        decay: Weight of the old average, in `[0, 1]`.

    Returns:
        A function of the averages, the current parameters and the number of averaged models. It changes the
        averages in place.

    Raises:
        ValueError: If `decay` is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> update = torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)
        >>> average = torch.tensor(4.0)
        >>> update([average], [torch.tensor(8.0)], 1)
        >>> average
        tensor(5.)
    """
    _check_decay(decay)

    def update(averages, currents, _):
        for a, c in zip(averages, currents):
            if a.is_floating_point() or a.is_complex():
                a.lerp_(c, 1 - decay)
            else:
                a.copy_(a * decay + c * (1 - decay))

    return torch.no_grad()(update)


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Tensor | int], Tensor]:
    """Return the update of an arithmetic mean, for `avg_fn` of `AveragedModel`.

    The update is `average + (current - average) / (count + 1)`.

    Returns:
        A function of the average, the current parameter and the number of averaged models.

    Example:
        >>> import pytpu as torch
        >>> update = torch.optim.swa_utils.get_swa_avg_fn()
        >>> update(torch.tensor(4.0), torch.tensor(8.0), 3)
        tensor(5.)
    """

    def update(average, current, count):
        return average + (current - average) / (count + 1)

    return torch.no_grad()(update)


def get_swa_multi_avg_fn() -> Callable[[PARAM_LIST, PARAM_LIST, Tensor | int], None]:
    """Return the update of `get_swa_avg_fn` for lists, for `multi_avg_fn` of `AveragedModel`.

    Returns:
        A function of the averages, the current parameters and the number of averaged models. It changes the
        averages in place.

    Example:
        >>> import pytpu as torch
        >>> update = torch.optim.swa_utils.get_swa_multi_avg_fn()
        >>> average = torch.tensor(4.0)
        >>> update([average], [torch.tensor(8.0)], 3)
        >>> average
        tensor(5.)
    """

    def update(averages, currents, count):
        part = 1 / (count + 1)
        for a, c in zip(averages, currents):
            if a.is_floating_point() or a.is_complex():
                a.lerp_(c, float(part))
            else:
                a.copy_(a + (c - a) * part)

    return torch.no_grad()(update)


class AveragedModel(Module):
    """Copy a model, and keep the averages of its parameters in the copy.

    Calling the averaged model calls the copy.

    Args:
        model: Model to average. It is copied once.
        device: Device of the copy. `None` keeps that of `model`.
        avg_fn: Function of the average, the current parameter and the number of averaged models. It returns the
            new average. Without `avg_fn` and `multi_avg_fn`, the average is the arithmetic mean.
        multi_avg_fn: The same for lists of parameters, in place.
        use_buffers: If `True`, average the buffers too. If `False`, copy them from the model at each update.

    Raises:
        AssertionError: If both `avg_fn` and `multi_avg_fn` are given.

    Example:
        >>> import pytpu as torch
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> averaged = torch.optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 2.0, 6.0):
        ...     with torch.no_grad():
        ...         _ = model.weight.fill_(value)
        ...     averaged.update_parameters(model)
        >>> averaged.module.weight.item()
        3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: torch.device | str | int | None = None,
        avg_fn: Callable[[Tensor, Tensor, Tensor | int], Tensor] | None = None,
        multi_avg_fn: Callable[[PARAM_LIST, PARAM_LIST, Tensor | int], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the averaged copy of the model returns for these arguments."""
        return self.module(*args, **kwargs)

    def _average(self, module):
        tensors = list(module.parameters())
        return tensors + list(module.buffers()) if self.use_buffers else tensors

    @torch.no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the current parameters of `model` into the averages.

        The first call copies the parameters.

        Args:
            model: Model with the parameters and buffers of the one that was copied.
        """
        own = [p.detach() for p in self._average(self.module)]
        on_accelerator = any(a.device.type == "tpu" for a in own)
        if on_accelerator:
            # The average is part of the training step that has just ended.
            _C._step_begins(id(self), False)
        theirs = [p.detach().to(a.device) for p, a in zip(self._average(model), own)]
        count = int(self.n_averaged)
        if count == 0:
            for a, p in zip(own, theirs):
                a.copy_(p)
        elif self.multi_avg_fn is not None or self.avg_fn is None:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(own, theirs, self.n_averaged if self.multi_avg_fn else count)
        else:
            for a, p in zip(own, theirs):
                a.copy_(self.avg_fn(a, p, self.n_averaged.to(a.device)))
        if not self.use_buffers:
            # Buffers are not averaged: copy those of the model.
            for a, b in zip(self.module.buffers(), model.buffers()):
                a.detach().copy_(b.detach().to(a.device))
        self.n_averaged += 1
        if on_accelerator:
            _C._step_boundary()


@torch.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: torch.device | str | int | None = None) -> None:
    """Compute the running statistics of all batch norm layers of a model again.

    Args:
        loader: Batches. Of a list or tuple, the first element is the input of the model.
        model: Model in which the statistics are reset. Its training mode is kept.
        device: Device to which each input is moved. `None` leaves inputs where they are.

    Example:
        >>> import pytpu as torch
        >>> model = torch.nn.BatchNorm1d(2)
        >>> torch.optim.swa_utils.update_bn([torch.ones(4, 2), 3 * torch.ones(4, 2)], model)
        >>> model.running_mean
        tensor([2., 2.])
    """
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
    was_training = model.training
    model.train()
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch.to(device) if device is not None else batch)
    for m, momentum in zip(norms, momenta):
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Move the learning rate of each group to a fixed rate, and keep it there.

    Args:
        optimizer: Optimizer whose learning rates change.
        swa_lr: Final learning rate of all groups, or a list with one rate per group.
        anneal_epochs: Number of epochs until the final rate. `0` sets it at once.
        anneal_strategy: Shape of the way to the final rate: `"cos"` or `"linear"`.
        last_epoch: Number of the last epoch. `-1` starts a schedule.

    Raises:
        ValueError: If the number of rates is wrong, or another argument is out of its range.

    Example:
        >>> import pytpu as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(schedule.get_last_lr())
        [0.75]
        [0.5]
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        if len(rates) != len(optimizer.param_groups):
            raise ValueError(
                f"swa_lr must have the same length as optimizer.param_groups. swa_lr has {len(rates)} values, "
                f"param_groups has {len(optimizer.param_groups)}."
            )
        for group, rate in zip(optimizer.param_groups, rates):
            group["swa_lr"] = rate.clone() if isinstance(rate, torch.Tensor) else rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, step):
        """Return the part of the way that is done."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float | Tensor]:
        """Compute the learning rates of the next epoch, one per group.

        `step` calls this. Use `get_last_lr` to read the rates.
        """
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=2,
            )
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(max(0, step - 1)), self._part(step)
        rates = []
        for group in self.optimizer.param_groups:
            target, lr = group["swa_lr"], group["lr"]
            # The start follows from the current rate and the part of the way that is done.
            start = lr if before == 1 else (lr - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
