"""Muon."""

import math

import pytpu as torch

from .optimizer import Optimizer, _check_lr, _scalar, without_grad

_RATIOS = {
    None: lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
    "spectral_unclamped": lambda rows, columns: math.sqrt(rows / columns),
}


def _orthogonal(x, coefficients, steps, eps):
    """About the nearest matrix with orthogonal rows (or columns): an odd polynomial moves all singular values to one."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if x.dim() != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = x.size(0) > x.size(1)
    y = x.to(torch.bfloat16)
    y = y.T if tall else y
    y = y / y.norm().clamp(min=eps)
    for _ in range(steps):
        square = y @ y.T
        y = torch.addmm(y, torch.addmm(square, square, square, beta=b, alpha=c), y, beta=a)
    return y.T if tall else y


class Muon(Optimizer):
    """Momentum whose update is made orthogonal; for matrices."""

    def __init__(
        self,
        params,
        lr=1e-3,
        weight_decay=0.1,
        momentum=0.95,
        nesterov=True,
        ns_coefficients=(3.4445, -4.7750, 2.0315),
        eps=1e-7,
        ns_steps=5,
        adjust_lr_fn=None,
    ):
        if isinstance(lr, torch.Tensor):
            _check_lr(lr)
        elif not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not 0.0 <= momentum:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in _RATIOS:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    @without_grad
    def step(self, closure=None):
        """Updates the parameters once."""
        loss = self._loss(closure)
        for group in self.param_groups:
            lr, momentum = _scalar(group["lr"]), group["momentum"]
            params, grads = self._collect(group, "Muon does not support sparse gradients")
            for p, grad in zip(params, grads):
                if p.is_complex():
                    raise RuntimeError("Muon does not support complex parameters")
                state = self.state[p]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(grad)
                buffer = state["momentum_buffer"].lerp_(grad, 1 - momentum)
                update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
                update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(update, alpha=-lr * _RATIOS[group["adjust_lr_fn"]](*p.shape))
        return loss
