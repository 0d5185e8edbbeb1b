"""Optimizers with `differentiable=True`: gradients of the parameters after steps, by gradients, state and options."""

import pytest

import pytpu as torch
from pytpu import optim

ADAM = ("step", "exp_avg", "exp_avg_sq")
CASES = {
    "Adam": (optim.Adam, {}, ADAM),
    "Adam amsgrad": (optim.Adam, {"amsgrad": True}, (*ADAM, "max_exp_avg_sq")),
    "AdamW amsgrad": (optim.AdamW, {"amsgrad": True, "maximize": True}, (*ADAM, "max_exp_avg_sq")),
    "RAdam": (optim.RAdam, {"weight_decay": 0.1}, ADAM),
    "NAdam": (optim.NAdam, {"decoupled_weight_decay": True, "weight_decay": 0.1}, (*ADAM, "mu_product")),
}


def _after(case, values, steps):
    cls, options, names = CASES[case]
    grad, *state, mu = values
    p = torch.linspace(0.5, 1, 4, dtype=torch.double)
    p.grad = grad
    optimizer = cls([p], lr=0.1, differentiable=True, **options)
    kept = {"step": torch.tensor(10.0, dtype=torch.double), "exp_avg": state[0].clone(), "exp_avg_sq": state[1].clone()}
    kept["max_exp_avg_sq"] = (state[1] * 1.5).clone()
    kept["mu_product"] = mu.clone()
    optimizer.state[p] = {name: kept[name] for name in names}
    for _ in range(steps):
        optimizer.step()
    return p


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("steps", [1, 3])
def test_steps_are_differentiated(case, steps):
    values = [torch.rand(4, dtype=torch.double, requires_grad=True) for _ in range(3)]
    values.append(torch.tensor(0.3, dtype=torch.double, requires_grad=True))
    assert torch.autograd.gradcheck(lambda *v: _after(case, v, steps), values)
    used = torch.autograd.grad(_after(case, values, steps).sum(), values, allow_unused=True)
    assert [g is not None for g in used] == [True, True, True, case == "NAdam"]


def test_options_out_of_range_are_refused():
    w = [torch.ones(1, requires_grad=True)]
    for name in ("lambd", "alpha"):
        with pytest.raises(ValueError, match=f"Invalid {name} value: -1.0"):
            optim.ASGD(w, **{name: -1.0})
    betas = (torch.tensor(0.9), torch.tensor(0.99))
    for cls in (optim.Adam, optim.AdamW):
        text = r"betas\[0\] as a Tensor is not supported for capturable=False and foreach=True"
        with pytest.raises(ValueError, match=text):
            cls(w, betas=betas, foreach=True)
        cls(w, betas=betas, foreach=True, capturable=True)
        with pytest.raises(ValueError, match="Invalid beta parameter at index 1"):
            cls(w, betas=(torch.tensor(0.9), torch.tensor(1.5)))


def test_lbfgs_at_a_gradient_of_zero():
    for lr in (1.0, torch.tensor(1.0)):
        w = torch.zeros(2, requires_grad=True)
        optimizer = optim.LBFGS([w], lr=lr, tolerance_grad=-float("inf"))

        def closure():
            optimizer.zero_grad()
            loss = (w**2).sum()
            loss.backward()
            return loss

        assert optimizer.step(closure).item() == 0 and w.tolist() == [0, 0]
        assert type(optimizer.state[w]["t"]) is type(lr)


def test_the_first_momentum_is_a_constant(device):
    g = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    p = torch.zeros(2, device=device)
    p.grad = g
    optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True, differentiable=True).step()
    (got,) = torch.autograd.grad(p.sum(), g)
    assert got.tolist() == pytest.approx([-0.1, -0.1]) and p.tolist() == pytest.approx([-0.19, -0.38])
