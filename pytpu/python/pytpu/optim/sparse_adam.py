"""SparseAdam."""

from __future__ import annotations

import pytpu as torch

from .optimizer import Optimizer, _check, _check_betas, _check_lr, _scalar, without_grad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pytpu import Tensor

    from .optimizer import ParamsT


class SparseAdam(Optimizer):
    """Implement Adam for sparse gradients.

    There are no sparse tensors yet. Until there are, `step` refuses every gradient.

    Only the elements that occur in a gradient, and their running means, change in a step.

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        lr: Learning rate, greater than 0. A tensor must have one element.
        betas: Factors `(beta1, beta2)` of the running means, each in `[0, 1)`.
        eps: Number added to the denominator, greater than 0.
        maximize: If `True`, ascend: use `-g` for the gradient `g`.

    Raises:
        ValueError: If an option is out of its range, or a parameter itself is sparse.
        RuntimeError: In `step`: if a gradient is dense.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.SparseAdam([w], lr=0.1)
        >>> w.sum().backward()
        >>> optimizer.step()
        Traceback (most recent call last):
        RuntimeError: SparseAdam does not support dense gradients, please consider Adam instead
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, torch.Tensor):
            _check_lr(lr)
        else:
            _check("learning rate", lr, 0.0 < lr)
        _check("epsilon value", eps, 0.0 < eps)
        _check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
            if getattr(p, "is_sparse", False)
        ]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")

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
            beta1, beta2 = group["betas"]
            lr = _scalar(group["lr"])
            params, grads = self._collect(group)
            for p, grad in zip(params, grads):
                if not grad.is_sparse:
                    raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                grad = (-grad if group["maximize"] else grad).coalesce()
                if grad._values().numel() == 0:
                    continue
                at = tuple(grad._indices().unbind(0))
                values = grad._values()
                mean = state["exp_avg"][at].lerp(values, 1 - beta1)
                square = state["exp_avg_sq"][at].lerp(values * values, 1 - beta2)
                state["exp_avg"][at] = mean
                state["exp_avg_sq"][at] = square
                step = state["step"]
                size = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
                p[at] = p[at] - size * mean / (square.sqrt() + group["eps"])
        return loss
