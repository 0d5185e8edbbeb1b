"""Averages of a model's parameters over training."""

import math
import warnings
from copy import deepcopy

import pytpu as torch
from pytpu import _C
from pytpu.nn import Module

from .lr_scheduler import LRScheduler

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


def get_ema_avg_fn(decay=0.999):
    """Moves an average towards a parameter by ``1 - decay``."""
    _check_decay(decay)

    def update(average, current, count):
        return decay * average + (1 - decay) * current

    return torch.no_grad()(update)


def get_ema_multi_avg_fn(decay=0.999):
    """``get_ema_avg_fn`` for lists."""
    _check_decay(decay)

    def update(averages, currents, _):
        for a, c in zip(averages, currents):
            if a.is_floating_point() or a.is_complex():
                a.lerp_(c, 1 - decay)
            else:
                a.copy_(a * decay + c * (1 - decay))

    return torch.no_grad()(update)


def get_swa_avg_fn():
    """The mean of all parameters seen."""

    def update(average, current, count):
        return average + (current - average) / (count + 1)

    return torch.no_grad()(update)


def get_swa_multi_avg_fn():
    """``get_swa_avg_fn`` for lists."""

    def update(averages, currents, count):
        part = 1 / (count + 1)
        for a, c in zip(averages, currents):
            if a.is_floating_point() or a.is_complex():
                a.lerp_(c, float(part))
            else:
                a.copy_(a + (c - a) * part)

    return torch.no_grad()(update)


class AveragedModel(Module):
    """A copy of a model that holds averages of its parameters; the mean of all unless a function is given."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
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

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _averaged(self, module):
        tensors = list(module.parameters())
        return tensors + list(module.buffers()) if self.use_buffers else tensors

    @torch.no_grad()
    def update_parameters(self, model):
        """Takes the model's parameters into the averages."""
        own = [p.detach() for p in self._averaged(self.module)]
        on_accelerator = any(a.device.type == "tpu" for a in own)
        if on_accelerator:
            # The average is part of the training step that has just ended.
            _C._step_begins(id(self), False)
        theirs = [p.detach().to(a.device) for p, a in zip(self._averaged(model), own)]
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
            # Statistics are not averaged: they stay those of the model.
            for a, b in zip(self.module.buffers(), model.buffers()):
                a.detach().copy_(b.detach().to(a.device))
        self.n_averaged += 1
        if on_accelerator:
            _C._step_boundary()


@torch.no_grad()
def update_bn(loader, model, device=None):
    """Computes the statistics of all batch norms of a model anew, from the batches of a loader."""
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
    """Moves the learning rate of every group to a fixed one and stays there."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
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
        """How much of the way is done."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self):
        """The learning rates of the next epoch."""
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
            # Where it began follows from where it is and how far it was to be.
            start = lr if before == 1 else (lr - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
