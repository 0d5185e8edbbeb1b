"""Adadelta, Adamax, NAdam, RAdam, ASGD and Rprop."""

from __future__ import annotations

import pytpu as torch

from .optimizer import PerParameter, _check, _check_betas, _check_lr, _check_not_negative, _update_moments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor

    from .optimizer import ParamsT


class Adadelta(PerParameter):
    """Implement Adadelta, which scales steps by the ratio of two running means.

    For the gradient `g`::

        v = rho * v + (1 - rho) * g ** 2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d ** 2
        p = p - lr * d

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Factor of the update `d`. A tensor must have one element.
        rho: Factor of the running means, in `[0, 1]`.
        eps: Number added under the roots.
        weight_decay: Factor of the L2 penalty, which is added to the gradient as `weight_decay * p`.
        foreach: Accepted for compatibility. The step is the same with either value.
        capturable: If `True`, keep the step count on the device of the parameter instead of on the CPU.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        differentiable: If `True`, autograd records the step.

    Raises:
        ValueError: If an option is out of its range.
        RuntimeError: In `step`: if a gradient is sparse.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Adadelta([w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> bool((w < 1).all())
        True

    Source:
        Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012.
    """

    _zeros = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
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
    """Implement Adamax: Adam with the largest gradient in place of the mean square.

    For the gradient `g` at step `t`::

        m = beta1 * m + (1 - beta1) * g
        u = max(beta2 * u, abs(g) + eps)
        p = p - lr / (1 - beta1 ** t) * m / u

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate. A tensor must have one element.
        betas: Factors `(beta1, beta2)`, each in `[0, 1)`.
        eps: Number added to the absolute value of the gradient.
        weight_decay: Factor of the L2 penalty, which is added to the gradient as `weight_decay * p`.
        foreach: Accepted for compatibility. The step is the same with either value.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        differentiable: If `True`, autograd records the step.
        capturable: If `True`, keep the step count on the device of the parameter instead of on the CPU.

    Raises:
        ValueError: If an option is out of its range.
        RuntimeError: In `step`: if a gradient is sparse.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Adamax([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 0.9000])

    Source:
        Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015.
    """

    _zeros = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
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
    """Implement NAdam: Adam with Nesterov momentum.

    For the gradient `g` at step `t`, where `M` is the product of `mu(1) ... mu(t)`::

        mu(t) = beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        m_hat = mu(t + 1) * m / (1 - M * mu(t + 1)) + (1 - mu(t)) * g / (1 - M)
        p = p - lr * m_hat / (sqrt(v / (1 - beta2 ** t)) + eps)

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate. A tensor must have one element.
        betas: Factors `(beta1, beta2)` of the running means, each in `[0, 1)`.
        eps: Number added to the denominator.
        weight_decay: Factor of the L2 penalty, which is added to the gradient as `weight_decay * p`.
        momentum_decay: How fast `mu(t)` approaches `beta1`.
        decoupled_weight_decay: If `True`, subtract `lr * weight_decay * p` from `p` and leave the gradient alone.
        foreach: Accepted for compatibility. The step is the same with either value.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        capturable: If `True`, keep the step count on the device of the parameter instead of on the CPU.
        differentiable: If `True`, autograd records the step.

    Raises:
        ValueError: If an option is out of its range.
        RuntimeError: In `step`: if a gradient is sparse.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.NAdam([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> bool((w < 1).all())
        True

    Source:
        Dozat, "Incorporating Nesterov Momentum into Adam", 2016.
    """

    _zeros = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
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
        exp_avg, exp_avg_sq = views["exp_avg"], views["exp_avg_sq"]
        _update_moments(exp_avg, exp_avg_sq, grad, beta1, beta2)
        if group["differentiable"]:
            # The next step changes the state in place.
            product = state["mu_product"].clone()
            denom = exp_avg_sq.div(1 - beta2**t).sqrt().add(group["eps"])
            p.add_(grad * (-lr * (1.0 - mu) / (1.0 - product)) / denom)
            p.add_(exp_avg * (-lr * mu_next / (1.0 - product * mu_next)) / denom)
            return
        product = state["mu_product"].item()
        denom = exp_avg_sq.div(1 - beta2**t).sqrt_().add_(group["eps"])
        p.addcdiv_(grad, denom, value=-lr * (1.0 - mu) / (1.0 - product))
        p.addcdiv_(exp_avg, denom, value=-lr * mu_next / (1.0 - product * mu_next))


class RAdam(PerParameter):
    """Implement RAdam: Adam that leaves out the mean square until enough steps have been seen.

    For the gradient `g` at step `t`, with the `m` and `v` of Adam::

        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * t * beta2 ** t / (1 - beta2 ** t)
        r = sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
        m_hat = m / (1 - beta1 ** t)
        p = p - lr * m_hat * r * sqrt(1 - beta2 ** t) / (sqrt(v) + eps)     # rho > 5
        p = p - lr * m_hat                                                  # rho <= 5

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate. A tensor must have one element.
        betas: Factors `(beta1, beta2)` of the running means, each in `[0, 1)`.
        eps: Number added to the denominator.
        weight_decay: Factor of the L2 penalty, which is added to the gradient as `weight_decay * p`.
        decoupled_weight_decay: If `True`, subtract `lr * weight_decay * p` from `p` and leave the gradient alone.
        foreach: Accepted for compatibility. The step is the same with either value.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        capturable: If `True`, keep the step count on the device of the parameter instead of on the CPU.
        differentiable: If `True`, autograd records the step.

    Raises:
        ValueError: If an option is out of its range.
        RuntimeError: In `step`: if a gradient is sparse.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.RAdam([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 0.8000])

    Source:
        Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2020.
    """

    _zeros = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
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
            root = exp_avg_sq.sqrt()
            # The gradient of the root needs its result.
            denom = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
            adaptive = (1 - beta2**t) ** 0.5 / denom
            p.add_(corrected * group["lr"] * adaptive * rectified, alpha=-1.0)
        else:
            p.add_(corrected * group["lr"], alpha=-1.0)


class ASGD(PerParameter):
    """Implement averaged stochastic gradient descent.

    The state entry `"ax"` of a parameter is the average `a`. For the gradient `g` at step `t`::

        p = (1 - lambd * eta) * p - eta * g
        a = a + mu * (p - a)
        eta = lr / (1 + lambd * lr * t) ** alpha
        mu = 1 / max(1, t - t0)

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate. A tensor must have one element.
        lambd: Decay of the parameter in each step.
        alpha: Power with which `eta` falls.
        t0: Step at which averaging starts.
        weight_decay: Factor of the L2 penalty, which is added to the gradient as `weight_decay * p`.
        foreach: Accepted for compatibility. The step is the same with either value.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        differentiable: If `True`, autograd records the step.
        capturable: If `True`, keep the step count on the device of the parameter instead of on the CPU.

    Raises:
        ValueError: If `lr`, `lambd`, `alpha` or `weight_decay` is negative.
        RuntimeError: In `step`: if a gradient is sparse.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.ASGD([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 0.8000])

    Source:
        Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _check_lr(lr)
        _check_not_negative(lambd=lambd, alpha=alpha, weight_decay=weight_decay)
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
    """Implement resilient backpropagation, which uses only the sign of the gradient.

    Each element has its own step size. It grows while the sign of the gradient stays the same, and shrinks when the
    sign changes. An element whose sign has changed takes no step.

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: First step size of every element. A tensor must have one element.
        etas: Factors `(shrink, grow)` of the step size, with `0 < shrink < 1 < grow`.
        step_sizes: Smallest and largest step size.
        capturable: If `True`, keep the step count on the device of the parameter instead of on the CPU.
        foreach: Accepted for compatibility. The step is the same with either value.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.
        differentiable: If `True`, autograd records the step.

    Raises:
        ValueError: If `lr` or `etas` is out of its range.
        RuntimeError: In `step`: if a gradient is sparse.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Rprop([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 0.9000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
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
        # Where the sign has changed, take no step, and treat the next gradient as the first.
        grad = torch.where(agreement < 0, torch.zeros_like(grad), grad)
        p.addcmul_(grad.sign(), views["step_size"], value=-1)
        views["prev"].copy_(grad)


def __getattr__(name):
    if name in ("adadelta", "adamax", "asgd", "nadam", "radam", "rprop"):
        from . import _functional

        return getattr(_functional, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
