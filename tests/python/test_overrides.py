"""`__torch_function__`: which calls subclasses, other types and modes take over, and what subclasses become."""

import copy

import numpy as np
import pytest

import pytpu as torch
from pytpu.overrides import TorchFunctionMode


class Plain(torch.Tensor):
    """A subclass without an override of its own."""


class Logged(torch.Tensor):
    """A subclass that notes the names of the functions it takes over."""

    names = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Minus:
    """Another type, whose calls all give -1."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return -1


@pytest.fixture
def names():
    """The names that `Logged` notes."""
    Logged.names.clear()
    return Logged.names


METHODS = {
    "numpy": lambda x: x.numpy(),
    "__repr__": lambda x: repr(x),
    "type": lambda x: x.type(),
    "__deepcopy__": lambda x: copy.deepcopy(x),
    "__array__": lambda x: np.asarray(x),
    "untyped_storage": lambda x: x.untyped_storage(),
    "new_tensor": lambda x: x.new_tensor([1]),
    "register_hook": lambda x: x.requires_grad_().register_hook(print),
    "__reversed__": lambda x: reversed(x),
    "resize_": lambda x: x.resize_(2, 2),
    "share_memory_": lambda x: x.share_memory_(),
}


@pytest.mark.parametrize("name", METHODS)
def test_overrides_see_methods_written_in_python(name, names):
    METHODS[name](torch.ones(2, 2).as_subclass(Logged))
    assert name in names


def test_overrides_see_backward(names):
    (torch.ones(1).as_subclass(Logged).requires_grad_() * 2).backward()
    assert "backward" in names


def test_modes_see_methods_written_in_python():
    seen = []

    class Log(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Log():
        x.numpy()
        repr(x)
    assert seen == [torch.Tensor.numpy, torch.Tensor.__repr__]


def test_methods_keep_their_results_with_overrides():
    x = torch.arange(4.0).reshape(2, 2).as_subclass(Logged)
    assert x.numpy().tolist() == [[0, 1], [2, 3]] and repr(x) == "Logged([[0., 1.],\n        [2., 3.]])"
    assert type(copy.deepcopy(x)) is Logged and type(x.type(torch.float64)) is Logged
    assert x.type() == "torch.FloatTensor"


def test_conversions_by_type_keep_the_subclass(device):
    x = torch.ones(2, device=device).as_subclass(Plain)
    assert type(x.type(torch.float64)) is Plain and x.type(torch.float64).dtype == torch.float64


def test_grad_of_other_types_is_theirs():
    assert torch.autograd.grad(Minus(), Minus()) == -1
    assert torch.autograd.grad([torch.ones(1), Minus()], torch.ones(1), retain_graph=True) == -1


def test_overrides_see_grad(names):
    x = torch.ones(2).as_subclass(Logged).requires_grad_()
    y = (x * 2).sum()
    names.clear()
    (g,) = torch.autograd.grad(y, x)
    assert names == ["grad"] and type(g) is Logged and g.tolist() == [2, 2]


def test_parameters_are_not_slowed_by_overrides():
    p = torch.nn.Parameter(torch.ones(2))
    assert repr(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert p.detach().numpy().tolist() == [1, 1]
