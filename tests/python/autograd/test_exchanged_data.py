"""Assignments of `.data`: to a gradient, and to a tensor to which a graph already leads."""

import pytest

import pytpu as torch


def _backward(p):
    (p * 2).sum().backward()
    return p


def _leaf(device, dtype=torch.float32):
    return torch.nn.Parameter(torch.ones(2, device=device, dtype=dtype))


def test_data_of_a_gradient_is_the_gradient(device):
    p = _backward(_leaf(device))
    p.grad.data = p.grad.data / 4
    assert p.grad.tolist() == [0.5, 0.5]
    g = p.grad
    g.data = torch.full((2,), 5.0, device=device)
    assert p.grad is g and p.grad.tolist() == [5, 5]
    # The next pass adds to the new elements.
    _backward(p)
    assert p.grad is g and g.tolist() == [7, 7]


def test_data_of_a_gradient_may_have_another_dtype_or_shape(device):
    p = _backward(_leaf(device, torch.bfloat16))
    p.grad.data = p.grad.float()
    assert p.grad.dtype == torch.float32
    assert _backward(p).grad.dtype == torch.float32 and p.grad.tolist() == [4, 4]
    p.grad.data = torch.zeros(3, device=device)
    assert p.grad.tolist() == [0, 0, 0]


def test_data_of_retained_and_assigned_gradients(device):
    x = torch.ones(2, device=device, requires_grad=True)
    y = x * 1
    y.retain_grad()
    y.sum().backward()
    y.grad.data = torch.zeros(2, device=device)
    assert y.grad.tolist() == [0, 0]
    z = x * 1
    z.grad = torch.ones(2, device=device)
    z.grad.data = torch.zeros(2, device=device)
    assert z.grad.tolist() == [0, 0]
    z.mul_(2)
    z.grad.data = torch.full((2,), 3.0, device=device)
    assert z.grad.tolist() == [3, 3]
    g = torch.ones(2, device=device)
    p, q = _leaf(device), _leaf(device)
    p.grad = q.grad = g
    g.data = torch.zeros(2, device=device)
    assert p.grad is g and q.grad is g and q.grad.tolist() == [0, 0]


def test_a_removed_gradient_is_no_gradient_any_more(device):
    p = _backward(_leaf(device))
    g, p.grad = p.grad, None
    g.data = torch.zeros(2, device=device)
    assert p.grad is None
    _backward(p)
    g.data = torch.ones(2, device=device)
    assert p.grad.tolist() == [2, 2]


@pytest.mark.parametrize(
    "change",
    [
        lambda g: g.resize_(3),
        lambda g: g.set_(torch.zeros(3, device=g.device)),
        lambda g: g.unsqueeze_(0),
        lambda g: torch.add(torch.ones(3, device=g.device), 1, out=g),
    ],
    ids=["resize_", "set_", "unsqueeze_", "out"],
)
def test_changes_of_the_layout_of_a_gradient_are_kept(device, change):
    p = _backward(_leaf(device))
    g = p.grad
    change(g)
    assert p.grad is g and p.grad.shape == g.shape != (2,)


@pytest.mark.parametrize("new", ["shape", "dtype", "both", "empty"])
def test_data_exchanged_before_backward_keeps_the_gradient(device, new):
    makes = {
        "shape": lambda: torch.zeros(3, device=device),
        "dtype": lambda: torch.zeros(2, device=device, dtype=torch.float64),
        "both": lambda: torch.zeros(3, device=device, dtype=torch.float16),
        "empty": lambda: torch.zeros(0, device=device),
    }
    p = _leaf(device)
    seen = []
    p.register_hook(lambda g: seen.append(g.dtype))
    p.register_post_accumulate_grad_hook(lambda q: seen.append(q is p))
    loss = (p * 2).sum()
    p.data = makes[new]()
    loss.backward()
    assert p.grad.tolist() == [2, 2] and p.grad.dtype == torch.float32 and seen == [torch.float32, True]
    other = _leaf(device)
    loss = (other * 2).sum()
    other.data = makes[new]()
    assert torch.autograd.grad(loss, other)[0].tolist() == [2, 2]


@pytest.mark.parametrize("name", ["double", "half", "bfloat16"])
def test_a_module_converted_before_backward_keeps_its_gradients(device, name):
    m = torch.nn.Linear(2, 1, device=device)
    loss = m(torch.ones(1, 2, device=device)).sum()
    getattr(m, name)()
    loss.backward()
    assert m.weight.grad.tolist() == [[1, 1]] and m.bias.grad.tolist() == [1]
    g = m.weight.grad
    m.double()
    assert m.weight.grad is g and g.dtype == m.weight.dtype == torch.float64


def test_gradients_of_two_shapes_are_not_added(device):
    p = _leaf(device)
    first = (p * 2).sum()
    p.data = torch.zeros(1, device=device)
    with pytest.raises(RuntimeError, match="expected shape compatible with"):
        (first + (p * 3).sum()).backward()


def test_data_does_not_cross_to_meta():
    p = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match=r"Attempted to call `variable.set_data\(tensor\)`, but `variable` and"):
        p.data = torch.ones(2, device="meta")
    m = torch.nn.Linear(2, 1).to("meta")
    assert m.weight.is_meta and m.to_empty(device="cpu").weight.device.type == "cpu"
