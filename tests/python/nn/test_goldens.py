"""Optimizers, schedules, samplers, init, losses and modules against results of PyTorch.

The files in `tests/goldens` are recorded by `record.py` beside them. The Rust library reads them too, in
`nn/tests/nn/goldens.rs`.
"""

import json
import pathlib

import pytest

import pytpu as torch

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "goldens"


def cases(part):
    """Return the cases of a file as parameters of a test, each with its name and settings as its identifier."""
    found = json.loads((GOLDENS / f"{part}.json").read_text())["cases"]
    return [
        pytest.param(c, id=c["name"] + "".join(f"-{k}={v}" for k, v in c["settings"].items()).replace(" ", ""))
        for c in found
    ]


def tensor(recorded, device="cpu"):
    dtype = getattr(torch, recorded["dtype"])
    return torch.tensor(recorded["values"], dtype=dtype, device=device).reshape(recorded["shape"])


def assert_close(x, recorded, rtol=1e-5, atol=1e-6):
    torch.testing.assert_close(x.detach().cpu(), tensor(recorded), rtol=rtol, atol=atol)


@pytest.mark.parametrize("case", cases("optim"))
def test_optimizers_equal_pytorchs(case, device):
    parameters = [torch.nn.Parameter(tensor(p, device)) for p in case["parameters"]]
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in case["settings"].items()}
    optimizer = getattr(torch.optim, case["name"])(parameters, **options)
    for gradients, wanted in zip(case["gradients"], case["steps"]):
        for p, g in zip(parameters, gradients):
            p.grad = tensor(g, device)
        optimizer.step()
        for p, w in zip(parameters, wanted):
            assert_close(p, w)


@pytest.mark.parametrize("case", cases("schedules"))
def test_schedules_equal_pytorchs(case):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=case["lr"], momentum=case["momentum"])
    schedule = getattr(torch.optim.lr_scheduler, case["name"])(optimizer, **case["settings"])
    group = optimizer.param_groups[0]
    for step, (rate, momentum) in enumerate(zip(case["rates"], case["momenta"])):
        if step:
            optimizer.step()
            schedule.step()
        assert (group["lr"], group["momentum"]) == pytest.approx((rate, momentum), rel=1e-12)


@pytest.mark.parametrize("case", cases("samplers"))
def test_samplers_draw_the_indices_of_pytorch(case):
    settings = dict(case["settings"])
    if "count" in settings:
        settings["data_source"] = range(settings.pop("count"))
    torch.manual_seed(case["seed"])
    assert list(getattr(torch.utils.data, case["name"])(**settings)) == case["indices"]


@pytest.mark.parametrize("case", cases("init"))
def test_init_draws_the_numbers_of_pytorch(case):
    x = torch.empty(case["result"]["shape"])
    torch.manual_seed(case["seed"])
    getattr(torch.nn.init, case["name"])(x, **case["settings"])
    assert_close(x, case["result"], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("case", cases("losses"))
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total loss")
def test_losses_equal_pytorchs(case, device):
    inputs = [tensor(t, device) for t in case["inputs"]]
    inputs[0].requires_grad_()
    loss = getattr(torch.nn, case["name"])(**case["settings"])(*inputs)
    loss.sum().backward()
    assert_close(loss, case["result"])
    assert_close(inputs[0].grad, case["gradient"])


@pytest.mark.parametrize("case", cases("modules"))
def test_modules_equal_pytorchs(case, device):
    torch.manual_seed(case["seed"])
    module = getattr(torch.nn, case["name"])(**case["settings"])
    drawn = torch.randn(case["input"]["shape"])
    assert_close(drawn, case["input"], rtol=0, atol=0)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    module.to(device)
    x = drawn.to(device).requires_grad_()
    y = module(x)
    y.square().sum().backward()
    assert_close(y, case["result"])
    assert_close(x.grad, case["gradient"], rtol=1e-4, atol=1e-5)
    state = module.state_dict()
    assert list(state) == list(before) == list(case["state"])
    for name, wanted in case["state"].items():
        assert_close(state[name], wanted)
    for p, wanted in zip(module.parameters(), case["parameter_gradients"], strict=True):
        assert_close(p.grad, wanted, rtol=1e-4, atol=1e-5)
