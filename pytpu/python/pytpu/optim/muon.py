"""Muon."""

from __future__ import annotations

import math

import pytpu as torch

from .optimizer import Optimizer, _check_lr, _scalar, without_grad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pytpu import Tensor

    from .optimizer import ParamsT


_RATIOS = {
    None: lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
    "spectral_unclamped": lambda rows, columns: math.sqrt(rows / columns),
}


def _orthogonal(x, coefficients, steps, eps):
    """Return a matrix close to the nearest one with orthogonal rows or columns."""
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
    """Implement Muon: momentum whose update is made close to orthogonal.

    For the gradient `g`::

        b = momentum * b + (1 - momentum) * g
        u = orthogonal((1 - momentum) * g + momentum * b)     # orthogonal(b) without Nesterov momentum
        p = (1 - lr * weight_decay) * p - ratio * lr * u

    `orthogonal` is an odd polynomial, applied `ns_steps` times in `bfloat16`. It moves all singular values towards 1.

    Args:
        params: The parameters to optimize, all with two dimensions, as tensors, as `(name, tensor)` pairs, or as dicts.
        lr: Learning rate. A tensor must have one element.
        weight_decay: Part of a parameter, times `lr`, that each step removes.
        momentum: Factor of the buffer.
        nesterov: If `True`, use Nesterov momentum.
        ns_coefficients: Coefficients of the polynomial.
        eps: Smallest norm that a gradient is divided by.
        ns_steps: How often the polynomial is applied. Less than 100.
        adjust_lr_fn: Rule for `ratio` of an `(n, m)` parameter. `"original"` or `None` is `sqrt(max(1, n / m))`,
            `"match_rms_adamw"` is `0.2 * sqrt(max(n, m))`, `"spectral_unclamped"` is `sqrt(n / m)`.

    Raises:
        ValueError: If an option is out of its range, or a parameter does not have two dimensions.
        RuntimeError: In `step`: if a gradient is sparse or a parameter is complex.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(4, 3, requires_grad=True)
        >>> optimizer = torch.optim.Muon([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> bool((w < 1).all())
        True

    Source:
        Jordan, "Muon: An optimizer for hidden layers in neural networks", 2024.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
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
