"""L-BFGS."""

from __future__ import annotations

import pytpu as torch

from .optimizer import Optimizer, _check_lr, _scalar, without_grad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytpu import Tensor

    from .optimizer import ParamsT


class _Point:
    """A point of the line search: step length, loss, gradient, and slope along the direction."""

    def __init__(self, t, loss, grad, slope):
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope


def _minimum_of_cubic(a, b, bounds=None):
    """Return the minimum, within bounds, of the cubic through two points with their slopes."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    if b.t < a.t:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(t, low), high)


def _strong_wolfe(evaluate, t, direction, start, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_evaluations=25):
    """Return a point that satisfies the strong Wolfe conditions, or the best one, and the number of evaluations."""

    def enough(p):
        return abs(p.slope) <= -c2 * start.slope

    def too_high(p):
        return p.loss > start.loss + c1 * p.t * start.slope

    reach = direction.abs().max().item()
    before, now = start, evaluate(t)
    evaluations, rounds = 1, 0
    bracket = None
    # First, find two points with a good step between them.
    while rounds < max_evaluations:
        if too_high(now) or (rounds > 1 and now.loss >= before.loss):
            bracket = [before, now]
            break
        if enough(now):
            return now, evaluations
        if now.slope >= 0:
            bracket = [before, now]
            break
        t = _minimum_of_cubic(before, now, (now.t + 0.01 * (now.t - before.t), now.t * 10))
        before, now = now, evaluate(t)
        evaluations += 1
        rounds += 1
    if bracket is None:
        bracket = [start, now]
    # Then, bring them closer together.
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    stuck = False
    while rounds < max_evaluations:
        left, right = min(p.t for p in bracket), max(p.t for p in bracket)
        if (right - left) * reach < tolerance_change:
            break
        t = _minimum_of_cubic(*bracket)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:
            # Close to an end for the second time, or outside: step away from it.
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = evaluate(t)
        evaluations += 1
        rounds += 1
        if too_high(now) or now.loss >= bracket[low].loss:
            bracket[high] = now
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = enough(now)
        if not done and now.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = now
        if done:
            break
    return bracket[low], evaluations


class LBFGS(Optimizer):
    """Implement L-BFGS: a quasi-Newton method that estimates the inverse Hessian from past gradients.

    `step` needs a closure that computes the loss, and may call it several times. The optimizer takes one group of
    parameters, and keeps `history_size` pairs of vectors with one element per parameter element.

    Args:
        params: The parameters to optimize. They form one group.
        lr: Learning rate. A tensor must have one element.
        max_iter: Largest number of inner steps in one `step`.
        max_eval: Largest number of calls of the closure in one `step`. `None` is `max_iter * 5 // 4`.
        tolerance_grad: `step` ends when no element of the gradient is larger.
        tolerance_change: `step` ends when the loss, or every parameter, changes by less.
        history_size: Number of past steps that the estimate uses.
        line_search_fn: `"strong_wolfe"`, or `None` for steps of length `lr`.
        maximize: If `True`, maximize the loss.

    Raises:
        ValueError: If `lr` is negative, or there are several groups.
        RuntimeError: In `step`: if `line_search_fn` is unknown.

    Example:
        >>> import pytpu as torch
        >>> w = torch.tensor([3.0, -2.0], requires_grad=True)
        >>> optimizer = torch.optim.LBFGS([w], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = ((w - 1) ** 2).sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure).item()
        13.0
        >>> bool((w - 1).abs().max() < 1e-4)
        True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        _check_lr(lr)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
            "maximize": maximize,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _gradient(self):
        """Return all gradients as one vector."""
        parts = []
        for p in self._params:
            g = torch.zeros_like(p) if p.grad is None else p.grad
            g = g.to_dense() if getattr(g, "is_sparse", False) else g
            parts.append((torch.view_as_real(g) if g.is_complex() else g).reshape(-1))
        g = torch.cat(parts)
        return -g if self.param_groups[0]["maximize"] else g

    def _move(self, t, direction):
        """Move all parameters along a direction."""
        at = 0
        for p in self._params:
            x = torch.view_as_real(p) if p.is_complex() else p
            x.add_(direction[at : at + x.numel()].view(x.shape), alpha=t)
            at += x.numel()

    @without_grad
    def step(self, closure: Callable[[], Tensor | float]) -> Tensor | float:  # type: ignore[override]  # Required.
        """Update the parameters by up to `max_iter` inner steps.

        Args:
            closure: Function that clears the gradients, computes the loss, calls `backward`, and returns the loss.

        Returns:
            The loss before the update, as the first call of `closure` returned it.
        """

        def evaluate():
            with torch.enable_grad():
                return closure()

        if not self._params:
            return evaluate()
        group = self.param_groups[0]
        lr = _scalar(group["lr"])
        max_iter, max_eval, history = group["max_iter"], group["max_eval"], group["history_size"]
        change = group["tolerance_change"]
        sign = -1.0 if group["maximize"] else 1.0
        # The state belongs to the first parameter, which decides its dtype when it is loaded.
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = evaluate()
        loss = sign * float(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        grad = self._gradient()
        if grad.abs().max().item() <= group["tolerance_grad"]:
            return first_loss
        d: Any = state.get("d")
        t: Any = state.get("t")
        old_dirs: Any = state.get("old_dirs")
        old_stps: Any = state.get("old_stps")
        ro: Any = state.get("ro")
        scale, before = state.get("H_diag"), state.get("prev_flat_grad")
        last_loss = state.get("prev_loss")
        for n in range(1, max_iter + 1):
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                d = grad.neg()
                old_dirs, old_stps, ro, scale = [], [], [], 1
            else:
                y, s = grad.sub(before), d.mul(t)
                ys = y.dot(s)
                if ys.item() > 1e-10:
                    if len(old_dirs) == history:
                        for kept in (old_dirs, old_stps, ro):
                            kept.pop(0)
                    old_dirs.append(y)
                    old_stps.append(s)
                    ro.append(1.0 / ys)
                    scale = ys / y.dot(y)
                d = self._direction(grad, old_dirs, old_stps, ro, scale)
            before = grad.clone() if before is None else before.copy_(grad)
            last_loss = loss
            t = lr
            if state["n_iter"] == 1:
                size = grad.abs().sum().item()
                t = (1.0 / size if size > 1.0 else 1.0) * lr
            slope = grad.dot(d).item()
            if slope > -change:
                break
            used = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                loss, grad, t, used = self._search(
                    evaluate, sign, t, d, _Point(0, loss, grad, slope), max_eval - evaluations
                )
                self._move(t, d)
                done = grad.abs().max().item() <= group["tolerance_grad"]
            else:
                self._move(t, d)
                done = False
                if n != max_iter:
                    # Not after the last inner step: the next `step` may have another batch.
                    loss = sign * float(evaluate())
                    grad = self._gradient()
                    done = grad.abs().max().item() <= group["tolerance_grad"]
                    used = 1
            evaluations += used
            state["func_evals"] += used
            if done or evaluations >= max_eval:
                break
            if d.mul(t).abs().max().item() <= change or abs(loss - last_loss) < change:
                break
        state.update(
            d=d,
            # As in PyTorch, a tensor stays one.
            t=t if t is None or not isinstance(group["lr"], torch.Tensor) else group["lr"].new_tensor(float(t)),
            old_dirs=old_dirs,
            old_stps=old_stps,
            ro=ro,
            H_diag=scale,
            prev_flat_grad=before,
            prev_loss=last_loss,
        )
        return first_loss

    @staticmethod
    def _direction(grad, old_dirs, old_stps, ro, scale):
        """Return minus the estimated inverse Hessian times the gradient, by two loops over the history."""
        q = grad.neg()
        weights = [0.0] * len(old_dirs)
        for i in reversed(range(len(old_dirs))):
            weights[i] = (old_stps[i].dot(q) * ro[i]).item()
            q.add_(old_dirs[i], alpha=-weights[i])
        q = q.mul(scale)
        for i in range(len(old_dirs)):
            q.add_(old_stps[i], alpha=weights[i] - (old_dirs[i].dot(q) * ro[i]).item())
        return q

    def _search(self, closure, sign, t, d, start, max_evaluations):
        saved = [p.detach().clone() for p in self._params]

        def evaluate(t):
            self._move(t, d)
            loss = sign * float(closure())
            grad = self._gradient()
            for p, x in zip(self._params, saved):
                p.copy_(x)
            return _Point(t, loss, grad, grad.dot(d).item())

        start = _Point(start.t, start.loss, start.grad.clone(), start.slope)
        tolerance = self.param_groups[0]["tolerance_change"]
        best, used = _strong_wolfe(evaluate, t, d, start, tolerance_change=tolerance, max_evaluations=max_evaluations)
        return best.loss, best.grad, best.t, used
