"""Optimisers against their formulas in NumPy, state dicts, errors, schedules."""

import copy
import math
import warnings

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn

START = np.array([1.0, -2.0, 3.0], np.float32)
GRADS = [np.array(g, np.float32) for g in ([0.5, -1.0, 2.0], [1.0, 0.25, -0.5], [-0.5, 2.0, 0.125])]


def run(make, device, steps=3):
    p = nn.Parameter(torch.tensor(START, device=device))
    optimizer = make([p])
    for grad in GRADS[:steps]:
        p.grad = torch.tensor(grad, device=device)
        optimizer.step()
    return p, optimizer


def test_sgd(device, close):
    p, _ = run(lambda ps: torch.optim.SGD(ps, lr=0.1, weight_decay=0.01), device)
    want = START.copy()
    for g in GRADS:
        want -= 0.1 * (g + 0.01 * want)
    close(p, want)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_momentum(nesterov, device, close):
    p, _ = run(lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=nesterov), device)
    want, velocity = START.copy(), None
    for g in GRADS:
        velocity = g.copy() if velocity is None else 0.9 * velocity + g
        want -= 0.1 * (g + 0.9 * velocity if nesterov else velocity)
    close(p, want)


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_and_adamw(decoupled, device, close):
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    p, _ = run(lambda ps: kind(ps, lr=0.1, weight_decay=0.1), device)
    want = START.copy()
    m = v = np.zeros(3)
    for t, g in enumerate(GRADS, 1):
        if decoupled:
            want = want * (1 - 0.1 * 0.1)
        else:
            g = g + 0.1 * want
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        want = want - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    close(p, want, rtol=1e-4)


def test_rmsprop(device, close):
    p, _ = run(lambda ps: torch.optim.RMSprop(ps, lr=0.1, alpha=0.9), device)
    want, v = START.copy(), np.zeros(3)
    for g in GRADS:
        v = 0.9 * v + 0.1 * g * g
        want = want - 0.1 * g / (np.sqrt(v) + 1e-8)
    close(p, want, rtol=1e-4)


def test_adagrad(device, close):
    p, _ = run(lambda ps: torch.optim.Adagrad(ps, lr=0.1), device)
    want, v = START.copy(), np.zeros(3)
    for g in GRADS:
        v = v + g * g
        want = want - 0.1 * g / (np.sqrt(v) + 1e-10)
    close(p, want, rtol=1e-4)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_training_resumes_from_a_state_dict(name, device, close):
    options = {"momentum": 0.9} if name == "SGD" else {}

    def make(ps):
        return getattr(torch.optim, name)(ps, lr=0.1, **options)

    whole, _ = run(make, device)
    p, first = run(make, device, steps=2)
    again = make([p])
    again.load_state_dict(first.state_dict())
    p.grad = torch.tensor(GRADS[2], device=device)
    again.step()
    close(p, whole.detach().cpu().numpy())


def test_state_dict_numbers_parameters():
    net = nn.Linear(2, 1)
    optimizer = torch.optim.Adam([{"params": [net.weight], "lr": 0.5}, {"params": [net.bias]}])
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    assert [g["params"] for g in state["param_groups"]] == [[0], [1]]
    assert [g["lr"] for g in state["param_groups"]] == [0.5, 1e-3]
    assert sorted(state["state"][0]) == ["exp_avg", "exp_avg_sq", "step"]
    assert float(state["state"][1]["step"]) == 1


def test_closure_runs_with_gradients(device):
    p = nn.Parameter(torch.ones(1, device=device))
    optimizer = torch.optim.SGD([p], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        loss = optimizer.step(closure)
    assert float(loss) == 1.0 and float(p) == 0.5


def test_step_hooks_run_around_the_step():
    p = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=1.0)
    seen = []
    optimizer.register_step_pre_hook(lambda o, a, k: seen.append(float(p.detach())))
    optimizer.register_step_post_hook(lambda o, a, k: seen.append(float(p.detach())))
    p.grad = torch.ones(1)
    optimizer.step()
    assert seen == [1.0, 0.0]


class Descent(torch.optim.Optimizer):
    """Update `data`, as programs did before ``no_grad``."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad.data, alpha=-group["lr"])
        return loss


class Wrapper(torch.optim.Optimizer):
    """Do not call ``__init__`` of the base class, like wrappers in some libraries."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def step(self, closure=None):
        return self.optimizer.step(closure)


def test_optimisers_of_others_run_with_gradients():
    w = torch.ones(2, requires_grad=True)
    o = Descent([w])

    def closure():
        w.grad = None
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert o.step(closure).item() == 2.0
    assert w.tolist() == pytest.approx([0.8, 0.8])
    schedule = torch.optim.lr_scheduler.StepLR(Wrapper(o), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.optimizer.step(closure)
        schedule.step()
    assert schedule.get_last_lr() == pytest.approx([0.01])
    assert not hasattr(copy.deepcopy(o).step, "_wrapped_by_lr_sched")


def test_hooks_of_subclasses_run_around_their_step():
    seen = []

    class Mine(torch.optim.Adam):
        def step(self, closure=None):
            seen.append(torch.is_grad_enabled())

    o = Mine([torch.ones(1, requires_grad=True)])
    o.register_step_pre_hook(lambda *_: seen.append("before"))
    o.register_step_post_hook(lambda *_: seen.append("after"))
    o.step()
    assert seen == ["before", True, "after"]


def test_errors_are_torchs():
    p = nn.Parameter(torch.ones(1))
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        torch.optim.SGD([])
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        torch.optim.SGD([p], lr=-1)
    with pytest.raises(ValueError, match="Invalid beta parameter at index 0: 1.0"):
        torch.optim.Adam([p], betas=(1.0, 0.9))
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        torch.optim.SGD([p * 2])
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        torch.optim.SGD([{"params": [p]}, {"params": [p]}])
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts, but got"):
        torch.optim.SGD(p)
    with pytest.raises(TypeError, match="ordered collections"):
        torch.optim.SGD([{"params": {p}}])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer = torch.optim.SGD([p])
        optimizer.load_state_dict({"state": {}, "param_groups": []})


def rates(make, steps, lr=1.0):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr, momentum=0.9)
    schedule = make(optimizer)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return seen


S = torch.optim.lr_scheduler


@pytest.mark.parametrize(
    "make, want",
    [
        (lambda o: S.StepLR(o, 2, 0.5), [1, 1, 0.5, 0.5, 0.25]),
        (lambda o: S.MultiStepLR(o, [1, 3], 0.5), [1, 0.5, 0.5, 0.25, 0.25]),
        (lambda o: S.ExponentialLR(o, 0.5), [1, 0.5, 0.25, 0.125, 0.0625]),
        (lambda o: S.LambdaLR(o, lambda e: 1 / (1 + e)), [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]),
        (lambda o: S.LinearLR(o, 0.5, 1.0, 2), [0.5, 0.75, 1, 1, 1]),
        (lambda o: S.CosineAnnealingLR(o, 4), [(1 + math.cos(math.pi * e / 4)) / 2 for e in range(5)]),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 2), [1, 0.5, 1, 0.5, 1]),
        (
            lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 10), S.ExponentialLR(o, 0.5)], [2]),
            [0.1, 0.1, 1, 0.5, 0.25],
        ),
    ],
    ids=["step", "multistep", "exponential", "lambda", "linear", "cosine", "restarts", "sequential"],
)
def test_schedules(make, want, close):
    close(np.array(rates(make, 5)), want, atol=1e-12)


def test_one_cycle_peaks_and_ends(close):
    seen = rates(lambda o: S.OneCycleLR(o, max_lr=1.0, total_steps=11), 10)
    close(seen[0], 1 / 25)
    assert max(seen) == pytest.approx(1.0, abs=0.05) and seen.index(max(seen)) in (2, 3)


def test_reduce_on_plateau_waits_for_patience():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = S.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    seen = []
    for metric in (1.0, 1.0, 1.0, 1.0, 0.1):
        schedule.step(metric)
        seen.append(optimizer.param_groups[0]["lr"])
    assert seen == [1.0, 1.0, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    "make, refused",
    [
        # Schedules that scale the current rates accept new groups. Others know only the groups from their creation.
        (lambda o: S.ExponentialLR(o, 0.5), None),
        (lambda o: S.LinearLR(o, 0.5, 1.0, 2), None),
        (lambda o: S.LambdaLR(o, lambda e: 0.5**e), 2),
        (lambda o: S.MultiplicativeLR(o, lambda e: 0.5), 2),
        (lambda o: S.CosineAnnealingLR(o, 2), 3),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 3), 2),
        (lambda o: S.CyclicLR(o, 0.1, 0.5, 3), 2),
        (lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 9), S.ExponentialLR(o, 0.5)], [3]), 3),
        (lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 9), S.ExponentialLR(o, 0.5)], [1]), None),
    ],
)
def test_schedules_with_groups_added_later(make, refused):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0, momentum=0.9)
    schedule = make(optimizer)
    optimizer.step()
    schedule.step()
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 1.0})
    for step in range(2, 5):
        if step == refused:
            with pytest.raises(ValueError, match="argument 2 is (shorter|longer) than argument"):
                schedule.step()
            return
        schedule.step()
        assert len(schedule.get_last_lr()) == 2
    assert refused is None


def test_stepping_a_schedule_first_warns():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = S.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step\\(\\)` before `optimizer.step\\(\\)`"):
        schedule.step()


# ---- optimisers with long formulas, against numbers of PyTorch


def minimise(make, device, steps=5):
    p = nn.Parameter(torch.tensor([[1.0, -2.0, 3.0], [0.5, 1.5, -0.25]], device=device))
    q = nn.Parameter(torch.tensor([0.3, -0.7], device=device))
    optimizer = make([p, q])

    def closure():
        optimizer.zero_grad()
        loss = ((p @ p.T) - torch.eye(2, device=device)).square().sum() + (q - 1).pow(4).sum()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return torch.cat([p.flatten(), q]), optimizer


@pytest.mark.parametrize(
    "make, want",
    [
        (
            lambda ps: torch.optim.LBFGS(ps, lr=0.1, max_iter=4),
            [0.611324, -1.046271, 1.710508, 0.482716, 1.095396, 0.005568, 0.436691, -0.001609],
        ),
        (
            lambda ps: torch.optim.LBFGS(ps, line_search_fn="strong_wolfe", max_iter=5, history_size=3),
            [0.355105, -0.397203, 0.846211, 0.491762, 0.849274, 0.192328, 0.985311, 0.996473],
        ),
        (
            lambda ps: torch.optim.Adafactor(ps, lr=0.1, weight_decay=0.01),
            [0.444502, -1.406882, 2.369227, 0.734389, 0.955162, 0.202003, 0.506724, -0.461246],
        ),
    ],
)
def test_long_steps(make, want, device, close):
    x, optimizer = minimise(make, device)
    close(x, want, rtol=1e-3, atol=1e-4)
    other = make([nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(2))])
    other.load_state_dict(optimizer.state_dict())
    assert other.state_dict()["state"].keys() == optimizer.state_dict()["state"].keys()


def test_muon_makes_updates_orthogonal(device, close):
    p = nn.Parameter(torch.tensor([[1.0, -2.0, 3.0], [0.5, 1.5, -0.25]], device=device))
    optimizer = torch.optim.Muon([p], lr=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        optimizer.zero_grad()
        (p @ p.T).square().sum().backward()
        optimizer.step()
    # The update is computed in bfloat16.
    close(p.flatten(), [0.939415, -1.918426, 2.845917, 0.429412, 1.367955, -0.270644], rtol=1e-2, atol=5e-3)


def test_mistakes_with_these_optimisers():
    p = nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
        torch.optim.SparseAdam([p]).step()
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        torch.optim.Muon([p])
    with pytest.raises(ValueError, match="Clipping threshold d should be >= 1 but is: 0.5"):
        torch.optim.Adafactor([p], d=0.5)
    with pytest.raises(ValueError, match="LBFGS doesn't support per-parameter options"):
        torch.optim.LBFGS([{"params": [p]}, {"params": [nn.Parameter(torch.ones(1))]}])
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        torch.optim.LBFGS([p], line_search_fn="exact").step(lambda: p.sum())


# ---- averages of models


def test_averaged_models():
    from pytpu.optim import swa_utils as swa

    for options, weights in [
        ({}, [1 / 3, 1 / 3, 1 / 3]),
        ({"multi_avg_fn": swa.get_ema_multi_avg_fn(0.5)}, [0.25, 0.25, 0.5]),
        ({"avg_fn": swa.get_ema_avg_fn(0.5)}, [0.25, 0.25, 0.5]),
    ]:
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        average = swa.AveragedModel(model, **options)
        seen = []
        for k in range(3):
            with torch.no_grad():
                model[0].weight.fill_(float(k))
            seen.append(float(k))
            average.update_parameters(model)
        want = sum(w * v for w, v in zip(weights, seen))
        assert torch.allclose(average.module[0].weight, torch.full((2, 2), want)) and int(average.n_averaged) == 3
        x = torch.randn(8, 2)
        swa.update_bn([(x, None)], average)
        assert torch.allclose(average.module[1].running_mean, average.module[0](x).mean(0), atol=1e-6)
        assert average.module[1].momentum == 0.1


def test_the_learning_rate_of_averages():
    from pytpu.optim import swa_utils as swa

    p = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=0.1)
    scheduler = swa.SWALR(optimizer, 0.05, anneal_epochs=4, anneal_strategy="linear")
    rates = []
    for _ in range(6):
        optimizer.step()
        scheduler.step()
        rates.append(round(optimizer.param_groups[0]["lr"], 6))
    assert rates == [0.0875, 0.075, 0.0625, 0.05, 0.05, 0.05]
    with pytest.raises(ValueError, match="swa_lr must have the same length"):
        swa.SWALR(optimizer, [0.1, 0.2])


def test_one_cycle_state_is_what_pytorch_writes():
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    # As PyTorch 2.15 writes it.
    assert schedule.state_dict()["_schedule_phases"] == [
        {
            "end_step": 2.0,
            "start_lr": "initial_lr",
            "end_lr": "max_lr",
            "start_momentum": "max_momentum",
            "end_momentum": "base_momentum",
        },
        {
            "end_step": 9,
            "start_lr": "max_lr",
            "end_lr": "min_lr",
            "start_momentum": "base_momentum",
            "end_momentum": "max_momentum",
        },
    ]
    rates = []
    for _ in range(9):
        optimizer.step()
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    t = np.arange(1, 8) / 7
    np.testing.assert_allclose(rates[:2], [0.52, 1.0])
    np.testing.assert_allclose(rates[2:], 4e-6 + (1 - 4e-6) * (np.cos(np.pi * t) + 1) / 2)


COMPLEX_STEPS = {
    # After three steps, from PyTorch 2.15.
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), [0.608 + 0.824j, 0.4 - 0.2j, 0.2572 - 1.1426j]),
    "momentum": (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        [0.227 - 0.3153j, 1.5319 - 0.7659j, 0.2179 - 1.263j],
    ),
    "nesterov": (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        [0.2834 - 0.1499j, 0.4 - 0.2j, 0.1894 - 1.3685j],
    ),
    "foreach=False": (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
        [0.23 - 0.31j, 1.534 - 0.767j, 0.2194 - 1.2686j],
    ),
}


@pytest.mark.parametrize("name", COMPLEX_STEPS)
def test_complex_parameters(name, device):
    make, want = COMPLEX_STEPS[name]
    p = torch.nn.Parameter(torch.tensor([1 + 2j, -1 + 0.5j, 0.3 - 1j], device=device))
    w = torch.tensor([1 - 1j, 2 + 1j, 0.5j], device=device)
    optimizer = make([p])
    for _ in range(3):
        optimizer.zero_grad()
        ((p * w - 1).abs() ** 2).sum().backward()
        optimizer.step()
    assert torch.allclose(p.detach().cpu(), torch.tensor(want), atol=1e-4)
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be floating point Tensors"):
        torch.optim.SGD([p], lr=0.1, fused=True).step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_a_fused_step_refuses_unsupported_tensors(name):
    make = getattr(torch.optim, name)
    real, whole = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    nowhere = torch.nn.Parameter(torch.ones(2, device="meta"))
    for p, text in ((whole, "torch.complex64 and cpu"), (nowhere, "torch.float32 and meta")):
        # The error comes in `step`, because a later group may ask for a fused update.
        optimizer = make([{"params": [real]}, {"params": [p], "fused": True}], lr=0.1)
        optimizer.step()
        p.grad = torch.ones_like(p)
        with pytest.raises(RuntimeError, match=f"floating point Tensors of supported devices: .* but {text}$"):
            optimizer.step()
    with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together."):
        make([real], lr=0.1, fused=True, foreach=True)
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        make([real], lr=0.1, fused=True, differentiable=True)


def test_parameters_in_a_set_warn():
    with pytest.warns(FutureWarning, match="but the ordering of tensors in sets will change between runs"):
        torch.optim.SGD({torch.nn.Parameter(torch.ones(1))}, lr=0.1)


def test_words_of_schedules_and_averages():
    swa = torch.optim.swa_utils
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    with pytest.raises(ValueError, match=r"Invalid decay value 1.5 provided. Please provide a value in \[0,1\] range."):
        swa.get_ema_multi_avg_fn(1.5)
    with pytest.raises(ValueError, match="anneal_strategy must be one of 'cos' or 'linear', instead got zzz"):
        swa.SWALR(optimizer, 0.1, anneal_strategy="zzz")
    assert torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2).state_dict()["_step_count"] == 0
