"""`.grad`: the object that was assigned stays, with its class and its attributes."""

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
def test_grad_keeps_the_class_of_what_was_assigned(make, device):
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
def test_another_gradient_lets_the_assigned_object_go():
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
