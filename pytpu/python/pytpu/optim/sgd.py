"""Stochastic gradient descent."""

from __future__ import annotations

import pytpu as torch
from pytpu import _C

from .optimizer import (
    Optimizer,
    _check_forms,
    _check_lr,
    _check_not_negative,
    _descent,
    _is_answered,
    _real,
    without_grad,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pytpu import Tensor

    from .optimizer import ParamsT


class SGD(Optimizer):
    """Implement stochastic gradient descent, with optional momentum.

    For the gradient `g`, with the buffer `b`, which is the first gradient at the first step::

        b = momentum * b + (1 - dampening) * g
        p = p - lr * b                       # p - lr * (g + momentum * b) with Nesterov momentum

    Without momentum, `p = p - lr * g`.

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate. A tensor must have one element.
        momentum: Factor of the buffer. `0` turns momentum off.
        dampening: Part of the gradient that does not enter the buffer.
        weight_decay: Factor of the L2 penalty, which is added to the gradient as `weight_decay * p`.
        nesterov: If `True`, use Nesterov momentum. It needs `momentum > 0` and `dampening == 0`.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        foreach: Accepted for compatibility. The step is the same with either value.
        differentiable: If `True`, autograd records the step.
        fused: If `False`, update one parameter after the other. Otherwise one op updates all parameters where
            it can.

    Raises:
        ValueError: If an option is out of its range.
        RuntimeError: If `fused` is combined with `foreach` or `differentiable`.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 0.8000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _check_lr(lr)
        _check_not_negative(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        _check_forms(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    @without_grad
    def step(self, closure: Callable[[], Tensor | float] | None = None) -> Tensor | float | None:
        """Update all parameters that have a gradient.

        Args:
            closure: Function that computes the loss again, calls `backward`, and returns the loss. It runs with
                gradients enabled.

        Returns:
            The result of `closure`, or `None` without a closure.
        """
        loss = self._loss(closure)
        for group in self.param_groups:
            params, grads = self._collect(group)
            if not params:
                continue
            momentum = group["momentum"]
            states = [self.state[p] for p in params] if momentum != 0 else []
            use_fused = (
                not group["differentiable"]
                and not isinstance(group["lr"], torch.Tensor)
                and group["fused"] is not False
                and not _is_answered((*params, *grads))
                # A buffer starts as the gradient. The fused op needs all buffers to be new, or none.
                and all(
                    (s.get("momentum_buffer") is None) == (states[0].get("momentum_buffer") is None) for s in states
                )
                and not any(getattr(g, "is_sparse", False) for g in grads)
            )
            if use_fused:
                first = bool(states) and states[0].get("momentum_buffer") is None
                dampening = group["dampening"]
                if first:
                    # On an accelerator the first step has the program of later steps: the whole gradient is added to a
                    # buffer of zeros.
                    on_accelerator = params[0].device.type == "tpu"
                    make = torch.zeros_like if on_accelerator else torch.empty_like
                    for state, p in zip(states, params):
                        state["momentum_buffer"] = make(p)
                    if on_accelerator:
                        first, dampening = False, 0
                _C._ops._fused_sgd_(
                    _real(*params),
                    _real(*grads),
                    _real(*(s["momentum_buffer"] for s in states)),
                    weight_decay=group["weight_decay"],
                    momentum=momentum,
                    lr=group["lr"],
                    dampening=dampening,
                    nesterov=group["nesterov"],
                    maximize=group["maximize"],
                    is_first_step=first,
                )
                continue
            for p, grad in zip(params, grads):
                self._update(group, p, grad)
        return loss

    def _update(self, group, p, grad):
        grad = _descent(group, p, grad)
        momentum = group["momentum"]
        if momentum != 0:
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            if buffer is None and p.device.type == "tpu":
                # Use the same program as later steps.
                buffer = state["momentum_buffer"] = torch.zeros_like(grad)
                buffer.mul_(momentum).add_(grad.detach(), alpha=1)
            elif buffer is None:
                buffer = grad.detach().clone()
                state["momentum_buffer"] = buffer
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        lr = group["lr"]
        if isinstance(lr, torch.Tensor):
            p.addcmul_(grad, lr, value=-1)
        else:
            p.add_(grad, alpha=-lr)


def __getattr__(name):
    if name == "sgd":
        from . import _functional

        return getattr(_functional, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
