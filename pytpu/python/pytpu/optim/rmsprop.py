"""RMSprop and Adagrad."""

from __future__ import annotations

import pytpu as torch

from .optimizer import PerParameter, _check_forms, _check_lr, _check_not_negative, _step_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor

    from .optimizer import ParamsT


class RMSprop(PerParameter):
    """Implement RMSprop: divide the gradient by the root of a running mean of its square.

    For the gradient `g`::

        v = alpha * v + (1 - alpha) * g ** 2
        p = p - lr * g / (sqrt(v) + eps)

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate. A tensor must have one element.
        alpha: Factor of the running mean of `g ** 2`.
        eps: Number added to the denominator.
        weight_decay: Factor of the L2 penalty, which is added to the gradient as `weight_decay * p`.
        momentum: Factor of a momentum buffer. `0` turns momentum off.
        centered: If `True`, subtract the square of the running mean of `g` from `v`.
        capturable: If `True`, keep the step count on the device of the parameter instead of on the CPU.
        foreach: Accepted for compatibility. The step is the same with either value.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        differentiable: If `True`, autograd records the step.

    Raises:
        ValueError: If an option is negative.
        RuntimeError: In `step`: if a gradient is sparse.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.RMSprop([w], lr=0.01)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_lr(lr)
        _check_not_negative(eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, group, p, state):
        state["square_avg"] = torch.zeros_like(p)
        if group["momentum"] > 0:
            state["momentum_buffer"] = torch.zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = torch.zeros_like(p)

    def _update(self, group, p, grad, state, views):
        lr, alpha = group["lr"], group["alpha"]
        square_avg = views["square_avg"]
        square_avg.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            grad_avg = views["grad_avg"]
            grad_avg.lerp_(grad, 1 - alpha)
            avg = square_avg.addcmul(grad_avg, grad_avg, value=-1).sqrt_()
        else:
            avg = square_avg.sqrt()
        avg = avg.add(group["eps"]) if group["differentiable"] else avg.add_(group["eps"])
        if group["momentum"] > 0:
            grad, avg = views["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, avg), None
        if isinstance(lr, torch.Tensor):
            p.sub_((grad if avg is None else grad / avg) * lr)
        elif avg is None:
            p.add_(grad, alpha=-lr)
        else:
            p.addcdiv_(grad, avg, value=-lr)


class Adagrad(PerParameter):
    """Implement Adagrad: divide the gradient by the root of the sum of all its squares.

    For the gradient `g` at step `t`::

        s = s + g ** 2
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate. A tensor must have one element.
        lr_decay: How fast the learning rate falls with the number of steps.
        weight_decay: Factor of the L2 penalty, which is added to the gradient as `weight_decay * p`.
        initial_accumulator_value: Value of `s` before the first step.
        eps: Number added to the denominator.
        foreach: Accepted for compatibility. The step is the same with either value.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        differentiable: If `True`, autograd records the step.
        fused: If `True`, keep the step count on the device of the parameter.

    Raises:
        ValueError: If an option is negative.
        RuntimeError: If `fused` is combined with `foreach` or `differentiable`. In `step`: if a gradient is sparse.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Adagrad([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 0.9000])

    Source:
        Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization", 2011.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _check_lr(lr)
        _check_not_negative(
            lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps
        )
        _check_forms(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = {"step": _step_tensor(group, p)}
                self._start(group, p, self.state[p])
        self._made_state()

    def _start(self, group, p, state):
        start = group["initial_accumulator_value"]
        state["sum"] = torch.full_like(p, complex(start, start) if p.is_complex() else start)

    def _update(self, group, p, grad, state, views):
        size = group["lr"] / (1 + (state["step"].item() - 1) * group["lr_decay"])
        total = views["sum"]
        total.addcmul_(grad, grad, value=1)
        std = total.sqrt()
        std = std + group["eps"] if group["differentiable"] else std.add_(group["eps"])
        if isinstance(size, torch.Tensor):
            p.sub_(grad / std * size)
        else:
            p.addcdiv_(grad, std, value=-size)

    def share_memory(self) -> None:
        """Move the sums of squares to shared memory, so that several processes can train together."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()


def __getattr__(name):
    if name in ("rmsprop", "adagrad"):
        from . import _functional

        return getattr(_functional, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
