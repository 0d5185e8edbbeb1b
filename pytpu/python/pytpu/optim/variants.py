"""Adadelta, Adamax, NAdam, RAdam, ASGD and Rprop."""

import pytpu as torch

from .optimizer import PerParameter, _check, _check_betas, _check_lr, _check_not_negative, _update_moments


class Adadelta(PerParameter):
    """Steps scaled by the ratio of running means of squared updates and squared gradients."""

    _zeros = ("square_avg", "acc_delta")

    def __init__(
        self,
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        capturable=False,
        maximize=False,
        differentiable=False,
    ):
        _check_lr(lr)
        _check("rho value", rho, 0.0 <= rho <= 1.0)
        _check_not_negative(eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _update(self, group, p, grad, state, views):
        rho, eps = group["rho"], group["eps"]
        square_avg, acc_delta = views["square_avg"], views["acc_delta"]
        square_avg.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = acc_delta.add(eps).sqrt() / square_avg.add(eps).sqrt() * grad
        acc_delta.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-group["lr"])


class Adamax(PerParameter):
    """Adam with the largest gradient seen in place of the mean square."""

    _zeros = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        _check_lr(lr)
        _check_not_negative(eps=eps)
        _check_betas(betas)
        _check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _update(self, group, p, grad, state, views):
        beta1, beta2 = group["betas"]
        views["exp_avg"].lerp_(grad, 1 - beta1)
        largest = views["exp_inf"]
        largest.copy_(torch.maximum(largest * beta2, grad.abs().add_(group["eps"])))
        size = group["lr"] / (1 - beta1 ** state["step"].item())
        p.addcdiv_(views["exp_avg"], largest, value=-size)


class NAdam(PerParameter):
    """Adam with Nesterov momentum."""

    _zeros = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        _check_lr(lr)
        _check_not_negative(eps=eps)
        _check_betas(betas)
        _check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, group, p, state):
        state["mu_product"] = torch.ones((), dtype=torch.float32)
        super()._start(group, p, state)

    def _update(self, group, p, grad, state, views):
        beta1, beta2 = group["betas"]
        lr, decay = group["lr"], group["momentum_decay"]
        t = state["step"].item()
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (t * decay))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * decay))
        state["mu_product"].mul_(mu)
        product = state["mu_product"].item()
        exp_avg, exp_avg_sq = views["exp_avg"], views["exp_avg_sq"]
        _update_moments(exp_avg, exp_avg_sq, grad, beta1, beta2)
        denom = exp_avg_sq.div(1 - beta2**t).sqrt_().add_(group["eps"])
        p.addcdiv_(grad, denom, value=-lr * (1.0 - mu) / (1.0 - product))
        p.addcdiv_(exp_avg, denom, value=-lr * mu_next / (1.0 - product * mu_next))


class RAdam(PerParameter):
    """Adam whose first steps do without the mean square until it can be trusted."""

    _zeros = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        _check_lr(lr)
        _check_not_negative(eps=eps)
        _check_betas(betas)
        _check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _update(self, group, p, grad, state, views):
        beta1, beta2 = group["betas"]
        t = state["step"].item()
        exp_avg, exp_avg_sq = views["exp_avg"], views["exp_avg_sq"]
        _update_moments(exp_avg, exp_avg_sq, grad, beta1, beta2)
        corrected = exp_avg / (1 - beta1**t)
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * t * beta2**t / (1 - beta2**t)
        if length > 5.0:
            rectified = ((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)) ** 0.5
            adaptive = (1 - beta2**t) ** 0.5 / exp_avg_sq.sqrt().add_(group["eps"])
            p.add_(corrected * group["lr"] * adaptive * rectified, alpha=-1.0)
        else:
            p.add_(corrected * group["lr"], alpha=-1.0)


class ASGD(PerParameter):
    """Gradient descent that also keeps the average of the parameters."""

    def __init__(
        self,
        params,
        lr=1e-2,
        lambd=1e-4,
        alpha=0.75,
        t0=1e6,
        weight_decay=0,
        foreach=None,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        _check_lr(lr)
        _check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, group, p, state):
        lr = group["lr"]
        state["eta"] = torch.as_tensor(float(lr), dtype=torch.float32)
        state["mu"] = torch.ones((), dtype=torch.float32)
        state["ax"] = torch.zeros_like(p)

    def _update(self, group, p, grad, state, views):
        t = state["step"].item()
        eta, mu = state["eta"].item(), state["mu"].item()
        p.mul_(1 - group["lambd"] * eta)
        p.add_(grad, alpha=-eta)
        if mu == 1:
            views["ax"].copy_(p)
        else:
            views["ax"].add_((p - views["ax"]) * mu)
        lr = float(group["lr"])
        state["eta"] = torch.tensor(lr / (1 + group["lambd"] * lr * t) ** group["alpha"], dtype=torch.float32)
        state["mu"] = torch.tensor(1 / max(1, t - group["t0"]), dtype=torch.float32)


class Rprop(PerParameter):
    """Steps by the sign of the gradient alone, longer while it stays the same."""

    def __init__(
        self,
        params,
        lr=1e-2,
        etas=(0.5, 1.2),
        step_sizes=(1e-6, 50),
        *,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        _check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, group, p, state):
        lr = float(group["lr"])
        state["prev"] = torch.zeros_like(p)
        state["step_size"] = torch.full_like(p, complex(lr, lr) if p.is_complex() else lr)

    def _update(self, group, p, grad, state, views):
        shrink, grow = group["etas"]
        smallest, largest = group["step_sizes"]
        agreement = grad * views["prev"]
        one = torch.ones_like(agreement)
        factor = torch.where(agreement > 0, one * grow, torch.where(agreement < 0, one * shrink, one))
        views["step_size"].mul_(factor).clamp_(smallest, largest)
        # Where the sign has turned no step is taken, and the next gradient counts as the first.
        grad = torch.where(agreement < 0, torch.zeros_like(grad), grad)
        p.addcmul_(grad.sign(), views["step_size"], value=-1)
        views["prev"].copy_(grad)


def __getattr__(name):
    if name in ("adadelta", "adamax", "asgd", "nadam", "radam", "rprop"):
        from . import _functional

        return getattr(_functional, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
