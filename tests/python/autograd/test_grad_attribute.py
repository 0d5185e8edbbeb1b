"""`Tensor.grad` keeps the assigned object, with its class and its attributes."""

import gc
import weakref

import pytest

import pytpu as torch


class Special(torch.Tensor):
    """A subclass without an override of its own."""


def _leaf(device):
    return torch.ones(2, device=device, requires_grad=True)


def _computed(device):
    return _leaf(device) * 2


@pytest.mark.parametrize("make", [_leaf, _computed])
def test_grad_keeps_the_class_of_the_assigned_tensor(make, device):
    x = make(device)
    x.grad = torch.ones(2, device=device).as_subclass(Special)
    assert type(x.grad) is Special
    x.grad = None
    x.grad = torch.ones(2, device=device)
    assert type(x.grad) is torch.Tensor


def test_grad_keeps_attributes_and_identity():
    x, g = torch.ones(2), torch.zeros(2)
    x.grad = g
    g.note, known = "kept", id(g)
    del g
    assert x.grad.note == "kept" and id(x.grad) == known


def test_grad_of_a_tensor_with_other_data_keeps_its_object():
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.ones(2).as_subclass(Special)
    x.data = torch.zeros(2)
    assert type(x.grad) is Special


def test_accumulation_goes_into_the_assigned_object(device):
    x = _leaf(device)
    x.grad = torch.ones(2, device=device).as_subclass(Special)
    (x * 2).sum().backward()
    assert type(x.grad) is Special and x.grad.tolist() == [3, 3]


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_another_gradient_releases_the_assigned_object():
    x = torch.ones(2, requires_grad=True)
    for change in (
        lambda: (x**2).sum().backward(create_graph=True),
        lambda: setattr(x, "grad", None),
        lambda: delattr(x, "grad"),
    ):
        x.grad = torch.ones(2).as_subclass(Special)
        seen = weakref.ref(x.grad)
        change()
        assert seen() is None and type(x.grad) is not Special


@pytest.mark.parametrize("make", [_leaf, _computed])
def test_a_gradient_that_refers_to_its_tensor_is_collected(make):
    x, g = make("cpu"), torch.ones(2)
    g.owner, x.grad = x, g
    seen = weakref.ref(x), weakref.ref(g)
    del x, g
    gc.collect()
    assert [s() for s in seen] == [None, None]


def test_retained_gradients_accumulate(device):
    x = torch.ones(2, device=device, requires_grad=True)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward(retain_graph=True)
    (y * y).sum().backward()
    assert y.grad.tolist() == [8, 8] and x.grad.tolist() == [16, 16]


def test_grad_of_a_computed_tensor_can_be_assigned(device):
    x = torch.ones(2, device=device, requires_grad=True)
    p = x.clone()
    p.grad = torch.full((2,), 3.0, device=device)
    assert p.grad.tolist() == [3, 3] and not p.retains_grad
    p.sum().backward()
    assert p.grad.tolist() == [3, 3] and x.grad.tolist() == [1, 1]
    p.grad = None
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert p.grad is None
    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
        p.grad = torch.ones(3, device=device)


def test_assigned_grad_of_a_computed_tensor_is_freed_with_it():
    import weakref

    p, g = torch.ones(2, requires_grad=True).clone(), torch.ones(2)
    p.grad, seen = g, weakref.ref(g)
    del p, g
    gc.collect()
    assert seen() is None


def test_retained_grad_follows_writes_in_place(device):
    a = torch.tensor([1.0], device=device, requires_grad=True).clone()
    a.retain_grad()
    a.mul_(2)
    a.mul_(3)
    (a * 5).sum().backward()
    assert a.grad.item() == 5 and a.retains_grad


def test_given_gradient_of_another_float_dtype_is_cast():
    a = torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(a.diagonal(), a, torch.ones(3))
    assert g.dtype == torch.float64 and torch.equal(g, torch.eye(3, dtype=torch.float64))


def test_integer_data_is_refused_for_tensors_that_require_grad():
    x = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="must be floating point or complex dtype"):
        x.data = torch.tensor(3)
    y = torch.tensor(1.0)
    y.data = torch.tensor(3)
    assert y.dtype == torch.int64
