"""State of optimisers and schedules, also state that older versions saved."""

import copy
import types

import pytest

import pytpu as torch

ADDED = (
    "maximize",
    "foreach",
    "capturable",
    "differentiable",
    "fused",
    "decoupled_weight_decay",
    "amsgrad",
    "nesterov",
)
KINDS = "ASGD Adadelta Adagrad Adamax NAdam RAdam RMSprop Rprop Adam AdamW SGD LBFGS Adafactor".split()


def _step(p, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = (p * torch.tensor([1.0, 2.0, 3.0], device=p.device)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)


@pytest.mark.parametrize("kind", KINDS)
def test_state_of_older_versions_is_completed(kind, device):
    make = getattr(torch.optim, kind)
    p = torch.nn.Parameter(torch.ones(3, device=device))
    optimizer = make([p], lr=0.1)
    for _ in range(2):
        _step(p, optimizer)
    state = copy.deepcopy(optimizer.state_dict())
    for group in state["param_groups"]:
        for name in ADDED:
            group.pop(name, None)
    for entry in state["state"].values():
        for name in ("step", "mu_product", "eta", "mu"):
            if name in entry:
                entry[name] = float(entry[name])
    q = torch.nn.Parameter(p.detach().clone())
    other = make([q], lr=0.1)
    other.load_state_dict(state)
    _step(p, optimizer)
    _step(q, other)
    torch.testing.assert_close(q, p)
    new, old = other.param_groups[0], optimizer.param_groups[0]
    assert {k: new[k] for k in old if k != "params"} == {k: old[k] for k in old if k != "params"}
    for name in ("step", "mu_product", "eta", "mu"):
        if name in other.state[q]:
            assert isinstance(other.state[q][name], torch.Tensor)


@pytest.mark.parametrize(
    "params, text", [(None, "'NoneType' object is not iterable"), (5, "'int' object is not iterable")]
)
def test_parameters_must_be_iterable(params, text):
    with pytest.raises(TypeError, match=text):
        torch.optim.AdamW(params)


def test_cyclic_rates_keep_their_tensor_bounds():
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    low, high, momentum = torch.tensor(0.1), torch.tensor(0.5), torch.tensor(0.9)
    schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, low, high, step_size_up=2, max_momentum=momentum)
    for _ in range(3):
        optimizer.step()
        schedule.step()
        optimizer.param_groups[0]["momentum"].mul_(0.5)
    assert (low.item(), high.item(), momentum.item()) == pytest.approx((0.1, 0.5, 0.9))
    assert float(optimizer.param_groups[0]["max_momentum"]) == pytest.approx(0.9)
    assert float(schedule.get_last_lr()[0]) == pytest.approx(0.3)


def test_one_cycle_keeps_its_tensor_bounds():
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=torch.tensor(0.1), momentum=0.9)
    high, momentum = torch.tensor(0.5), torch.tensor(0.95)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, high, total_steps=10, max_momentum=momentum)
    for _ in range(5):
        optimizer.step()
        schedule.step()
        optimizer.param_groups[0]["momentum"].mul_(0.5)
    assert (high.item(), momentum.item()) == pytest.approx((0.5, 0.95))


def test_averaging_keeps_its_tensor_rate():
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=torch.tensor(0.1))
    rate = torch.tensor(0.05)
    schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=rate)
    for _ in range(12):
        optimizer.step()
        schedule.step()
        optimizer.param_groups[0]["lr"].mul_(0.5)
    assert float(optimizer.param_groups[0]["swa_lr"]) == pytest.approx(0.05) and rate.item() == pytest.approx(0.05)


def _sgd():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 3)


def test_a_step_overridden_after_the_schedule_warns():
    optimizer, schedule = _sgd()
    step = optimizer.step
    optimizer.step = types.MethodType(lambda self, *args: step(*args), optimizer)
    optimizer.step()
    with pytest.warns(UserWarning, match="Seems like `optimizer.step\\(\\)` has been overridden"):
        schedule.step()


def test_the_epoch_argument_warns():
    optimizer, schedule = _sgd()
    optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter"):
        schedule.step(1)
