"""`Module._apply` and the conversions that use it: `to`, `cpu`, `double` and others."""

import pytest

import pytpu as torch
from pytpu import nn


class Watched(nn.Parameter):
    """A parameter whose class overrides conversions."""

    calls = []

    def to(self, *args, **kwargs):
        self.calls.append("to")
        return super().to(*args, **kwargs)

    def cpu(self):
        self.calls.append("cpu")
        return super().cpu()

    def double(self):
        self.calls.append("double")
        return super().double()

    def bfloat16(self):
        self.calls.append("bfloat16")
        return super().bfloat16()


@pytest.mark.parametrize(
    ("convert", "call"),
    [
        (lambda m: m.to("cpu"), "to"),
        (lambda m: m.to(torch.float64), "to"),
        (lambda m: m.to(torch.ones(1).double()), "to"),
        (lambda m: m.to(memory_format=torch.channels_last), "to"),
        (lambda m: m.cpu(), "cpu"),
        (lambda m: m.double(), "double"),
        (lambda m: m.bfloat16(), "bfloat16"),
    ],
)
def test_conversions_call_what_the_class_of_a_parameter_overrides(convert, call):
    m = nn.Linear(1, 1)
    w = m.weight = Watched(m.weight.data)
    Watched.calls.clear()
    convert(m)
    assert Watched.calls[:1] == [call] and m.weight is w and type(w) is Watched and w.requires_grad


def test_an_override_may_change_the_data_of_the_parameter(device):
    class Packed(nn.Parameter):
        """A weight that packs itself when it is moved."""

        def to(self, *args, **kwargs):
            return Packed((self.data * 0).to(torch.uint8).reshape(-1, 1), requires_grad=False)

    m = nn.Linear(2, 2, device=device)
    m.weight = Packed(m.weight.data, requires_grad=False)
    m.to(device)
    assert type(m.weight) is Packed and m.weight.dtype == torch.uint8 and m.weight.shape == (4, 1)


def test_apply_gets_the_parameter_and_its_gradient(device):
    m = nn.Linear(2, 2, bias=False, device=device)
    w = m.weight
    w.grad = torch.ones(2, 2, device=device)
    g, seen = w.grad, []

    def double(t):
        seen.append((t is w, t is g))
        return t * 2

    before = w.tolist()
    m._apply(double)
    assert seen == [(True, False), (False, True)]
    assert m.weight is w and w.grad is g and g.tolist() == [[2, 2], [2, 2]]
    assert w.tolist() == [[2 * v for v in row] for row in before] and w.requires_grad and w.is_leaf


def test_apply_with_a_function_in_place_is_noticed_by_backward(device):
    m = nn.Linear(2, 2, device=device)
    x = torch.ones(1, 2, device=device, requires_grad=True)
    y = m(x) ** 2
    version = m.weight._version
    m._apply(lambda w: w.add_(1))
    assert m.weight._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_assigned_parameters_keep_their_identity_while_conversions_swap():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    w = a.weight
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        a.load_state_dict(b.state_dict(), assign=True)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert a.weight is w and w.data_ptr() == b.weight.data_ptr()


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, nn.Softplus])
def test_a_gradient_penalty_through_full_backward_hooks(device, activation):
    def gradients(hooked):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), activation(), nn.Linear(4, 1)).to(device)
        calls = []
        if hooked:
            for m in net.modules():
                m.register_full_backward_hook(lambda *args: calls.append("hook"))
                m.register_full_backward_pre_hook(lambda *args: calls.append("pre"))
        x = torch.linspace(-1, 1, 6, device=device).view(2, 3).requires_grad_()
        (g,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        first = len(calls)
        (g.norm() - 1).pow(2).backward()
        return first, [p.grad for p in net.parameters()]

    first, got = gradients(True)
    _, want = gradients(False)
    assert first == 8
    for a, b in zip(got, want):
        assert a is b is None or torch.allclose(a, b)


def test_a_loss_with_a_hook_is_differentiated_twice(device):
    loss, calls = nn.MSELoss(), []
    loss.register_full_backward_hook(lambda *args: calls.append(1))
    x = torch.full((3,), 2.0, device=device, requires_grad=True)
    (g,) = torch.autograd.grad(loss(x, torch.zeros(3, device=device)), x, create_graph=True)
    g.pow(2).sum().backward()
    assert calls == [1] and torch.allclose(x.grad, torch.full((3,), 16 / 9, device=device))
