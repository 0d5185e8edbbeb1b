"""SparseAdam."""

import pytpu as torch

from .optimizer import Optimizer, _check, _check_betas, _check_lr, _scalar, without_grad


class SparseAdam(Optimizer):
    """Adam for sparse gradients: what a gradient does not mention stays as it is."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
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
    def step(self, closure=None):
        """Updates the parameters once."""
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
