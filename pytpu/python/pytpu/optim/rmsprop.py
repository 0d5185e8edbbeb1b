"""RMSprop and Adagrad."""

import pytpu as torch

from .optimizer import PerParameter, _check_forms, _check_lr, _check_not_negative, _step_tensor


class RMSprop(PerParameter):
    """Steps scaled by a running mean of the squared gradient."""

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
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
    """Steps scaled by the sum of all squared gradients so far."""

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ):
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

    def share_memory(self):
        """Moves the sums to shared memory."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()


def __getattr__(name):
    if name in ("rmsprop", "adagrad"):
        from . import _functional

        return getattr(_functional, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
