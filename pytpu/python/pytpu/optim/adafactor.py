"""Adafactor."""

from __future__ import annotations

import pytpu as torch

from .optimizer import Optimizer, _check_lr, _scalar, _step_tensor, without_grad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pytpu import Tensor

    from .optimizer import ParamsT


class Adafactor(Optimizer):
    """Implement Adafactor, which keeps one mean square per row and per column of a matrix.

    The mean square of a parameter with two or more dimensions is the product of a row vector and a column vector.
    The learning rate of a step is `min(lr, 1 / sqrt(t)) * max(eps[1], rms(p))`.

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate. A tensor must have one element.
        beta2_decay: Power of the step number that gives the weight of a new square. At most `0`.
        eps: `(eps1, eps2)`: the smallest root mean square of a gradient, and of a parameter. If `eps1` is `None`, it
            is the machine epsilon of the dtype of the parameter.
        d: Bound of the root mean square of an update. At least `1`.
        weight_decay: Part of a parameter, times `lr`, that each step removes.
        foreach: Accepted for compatibility. The step is the same with either value.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.

    Raises:
        ValueError: If an option is out of its range.
        RuntimeError: In `step`: if a gradient is sparse or a parameter is complex.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(4, 3, requires_grad=True)
        >>> optimizer = torch.optim.Adafactor([w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> optimizer.state[w]["row_var"].shape
        torch.Size([4, 1])

    Source:
        Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", 2018.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, torch.Tensor):
            _check_lr(lr)
        elif not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not 0.0 >= beta2_decay:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not 0.0 <= eps[0]:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not 0.0 <= eps[1]:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not 1.0 <= d:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
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
            params, grads = self._collect(group, "Adafactor does not support sparse gradients")
            for p, grad in zip(params, grads):
                if p.is_complex():
                    raise RuntimeError("Adafactor does not support complex parameters")
                self._update(group, p, -grad if group["maximize"] else grad, self.state[p])
        return loss

    @staticmethod
    def _update(group, p, grad, state):
        if len(state) == 0:
            state["step"] = _step_tensor()
            if grad.dim() > 1:
                rows, columns = list(grad.shape), list(grad.shape)
                rows[-1], columns[-2] = 1, 1
                state["row_var"] = grad.new_zeros(rows)
                state["col_var"] = grad.new_zeros(columns)
            else:
                state["variance"] = torch.zeros_like(grad)
        state["step"].add_(1)
        step, lr = state["step"].item(), _scalar(group["lr"])
        low, smallest = group["eps"]
        low = torch.finfo(p.dtype).eps if low is None else low
        weight = step ** group["beta2_decay"]
        # The step is relative to the size of the parameter.
        size = max(smallest, p.norm().item() / p.numel() ** 0.5) * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        square = grad * grad
        if grad.dim() > 1:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_(square.mean(-1, keepdim=True), weight)
            columns.lerp_(square.mean(-2, keepdim=True), weight)
            estimate = (rows @ columns) / rows.mean(-2, keepdim=True).clamp(min=low)
        else:
            estimate = state["variance"].lerp_(square, weight)
        update = estimate.clamp(min=low * low).rsqrt() * grad
        clip = max(1.0, update.norm().item() / (update.numel() ** 0.5 * group["d"]))
        p.add_(update, alpha=-size / clip)
