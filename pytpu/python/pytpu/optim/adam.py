"""Adam and AdamW."""

from __future__ import annotations

import pytpu as torch
from pytpu import _C

from .optimizer import (
    Optimizer,
    _check_betas,
    _check_forms,
    _check_lr,
    _check_not_negative,
    _descent,
    _is_answered,
    _real,
    _step_tensor,
    _update_moments,
    without_grad,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytpu import Tensor

    from .optimizer import ParamsT


class Adam(Optimizer):
    """Implement Adam, with running means of the gradient and of its square.

    For the gradient `g` at step `t`::

        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        p = p - lr * (m / (1 - beta1 ** t)) / (sqrt(v / (1 - beta2 ** t)) + eps)

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate. A tensor must have one element.
        betas: Factors `(beta1, beta2)` of the running means, each in `[0, 1)`, or both one-element tensors.
        eps: Number added to the denominator.
        weight_decay: Factor of the L2 penalty, which is added to the gradient as `weight_decay * p`.
        amsgrad: If `True`, divide by the largest `v` of all steps (AMSGrad).
        foreach: Accepted for compatibility. The step is the same with either value.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        capturable: If `True`, keep the step count on the device of the parameter instead of on the CPU.
        differentiable: If `True`, autograd records the step.
        fused: If `False`, update one parameter after the other. Otherwise one op updates all parameters where
            it can.
        decoupled_weight_decay: If `True`, subtract `lr * weight_decay * p` from `p` and leave the gradient alone,
            as AdamW does.

    Raises:
        ValueError: If an option is out of its range.
        RuntimeError: If `fused` is combined with `foreach` or `differentiable`. In `step`: if a gradient is sparse.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Adam([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 0.9000])

    Source:
        Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        _check_lr(lr)
        _check_not_negative(eps=eps)
        if isinstance(betas[0], torch.Tensor) != isinstance(betas[1], torch.Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        _check_betas(betas)
        _check_not_negative(weight_decay=weight_decay)
        for i, beta in enumerate(betas):
            if isinstance(beta, torch.Tensor) and foreach and not capturable:
                raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
        if isinstance(lr, torch.Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        _check_forms(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
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
            params, grads = self._collect(
                group, "Adam does not support sparse gradients, please consider SparseAdam instead"
            )
            if not params:
                continue
            for p in params:
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = _step_tensor(group, p)
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                    if group["amsgrad"]:
                        state["max_exp_avg_sq"] = torch.zeros_like(p)
            if not self._fused_update(group, params, grads):
                for p, grad in zip(params, grads):
                    self._update(group, p, grad, self.state[p])
        return loss

    def _fused_update(self, group, params, grads):
        fused = _C._ops._fused_adamw_ if group["decoupled_weight_decay"] else _C._ops._fused_adam_
        beta1, beta2 = group["betas"]
        if (
            group["fused"] is False
            or _is_answered((*params, *grads))
            or group["differentiable"]
            or group["capturable"]
            or len({id(p) for p in params}) != len(params)  # A repeated parameter takes its steps one after the other.
            or any(p.is_complex() for p in params)
            or any(isinstance(v, torch.Tensor) for v in (group["lr"], beta1, beta2))
        ):
            return False
        states = [self.state[p] for p in params]
        steps = [s["step"].add_(1) for s in states]
        fused(
            params,
            grads,
            [s["exp_avg"] for s in states],
            [s["exp_avg_sq"] for s in states],
            [s["max_exp_avg_sq"] for s in states] if group["amsgrad"] else [],
            steps,
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=group["amsgrad"],
            maximize=group["maximize"],
        )
        return True

    def _update(self, group, p, grad, state):
        beta1, beta2 = group["betas"]
        lr, eps = group["lr"], group["eps"]
        state["step"].add_(1)
        grad = _descent(group, p, grad)
        largest = state["max_exp_avg_sq"] if group["amsgrad"] else None
        # A complex parameter is updated as two real ones.
        p, grad, exp_avg, exp_avg_sq, largest = _real(p, grad, state["exp_avg"], state["exp_avg_sq"], largest)
        _update_moments(exp_avg, exp_avg_sq, grad, beta1, beta2)
        if group["capturable"] or group["differentiable"]:
            step = state["step"]
            correction1, correction2 = 1 - beta1**step, 1 - beta2**step
            scale = correction2.sqrt()
        else:
            step = state["step"].item()
            correction1, correction2 = 1 - beta1**step, 1 - beta2**step
            scale = correction2**0.5
        second = exp_avg_sq
        if largest is not None:
            if group["differentiable"]:
                largest.copy_(torch.maximum(largest.clone(), exp_avg_sq.clone()))
            else:
                torch.maximum(largest, exp_avg_sq, out=largest)
            second = largest
        if group["differentiable"]:
            # The next step changes the moments in place.
            exp_avg, second = exp_avg.clone(), second.clone()
        denom = (second.sqrt() / scale).add_(eps)
        size = lr / correction1
        if isinstance(size, torch.Tensor):
            p.add_(-(exp_avg / denom) * size)
        else:
            p.addcdiv_(exp_avg, denom, value=-size)


class AdamW(Adam):
    """Implement AdamW: Adam with weight decay that does not pass through the running means.

    For the gradient `g` at step `t`::

        p = p - lr * weight_decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        p = p - lr * (m / (1 - beta1 ** t)) / (sqrt(v / (1 - beta2 ** t)) + eps)

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate. A tensor must have one element.
        betas: Factors `(beta1, beta2)` of the running means, each in `[0, 1)`, or both one-element tensors.
        eps: Number added to the denominator.
        weight_decay: Part of a parameter, times `lr`, that each step removes.
        amsgrad: If `True`, divide by the largest `v` of all steps (AMSGrad).
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        foreach: Accepted for compatibility. The step is the same with either value.
        capturable: If `True`, keep the step count on the device of the parameter instead of on the CPU.
        differentiable: If `True`, autograd records the step.
        fused: If `False`, update one parameter after the other. Otherwise one op updates all parameters where
            it can.

    Raises:
        ValueError: If an option is out of its range.
        RuntimeError: If `fused` is combined with `foreach` or `differentiable`. In `step`: if a gradient is sparse.

    Example:
        >>> import pytpu as torch
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
        >>> model(torch.ones(3, 4)).sum().backward()
        >>> optimizer.step()

    Source:
        Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def __getattr__(name):
    if name in ("adam", "adamw"):
        from . import _functional

        return getattr(_functional, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
