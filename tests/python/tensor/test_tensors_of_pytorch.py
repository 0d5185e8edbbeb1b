"""Tensors of PyTorch beside tensors of this library, in one process."""

import operator

import pytest

import pytpu as torch


def stand_in():
    """Return a class that passes calls on as PyTorch's `Tensor` does: without its override, it calls the function."""
    disabled = []

    def __torch_function__(cls, func, types, args=(), kwargs=None):
        disabled.append(func)
        return func(*args, **(kwargs or {}))

    def operator_of(name):
        def method(self, other):
            override = getattr(type(other), "__torch_function__", None)
            if override is None:
                return NotImplemented
            # The result of an override is the result of the operator.
            return override(getattr(type(self), name), (type(other),), (self, other), {})

        return method

    members = {name: operator_of(name) for name in ("__add__", "__mul__", "__matmul__", "__truediv__")}
    members |= {"__module__": "torch", "__torch_function__": classmethod(__torch_function__)}
    return type("Tensor", (), members)


MESSAGE = r"tensors of PyTorch and of pytpu cannot be mixed.*pytpu\.from_dlpack.*torch\.from_dlpack"


@pytest.mark.parametrize("name", ["add", "mul", "matmul", "truediv", "sub", "floordiv", "mod", "pow"])
def test_operators_say_how_to_convert(name):
    f, x = getattr(operator, name), torch.ones(2)
    for a, b in ((x, stand_in()()), (stand_in()(), x)):
        with pytest.raises(TypeError, match=MESSAGE):
            f(a, b)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: torch.add(t, 1),
        lambda t: torch.add(torch.ones(2), t),
        lambda t: torch.ones(2).add_(t),
        lambda t: torch.cat([torch.ones(2), t]),
        lambda t: torch.where(torch.ones(2) > 0, t, 0.0),
        lambda t: torch.nn.Linear(2, 2)(t),
        lambda t: torch.nn.functional.softmax(t, 0),
        lambda t: torch.nn.Parameter(torch.ones(2)) * t,
        lambda t: torch.ones(2).__setitem__(0, t),
        lambda t: torch.nn.functional.mse_loss(torch.ones(2), t),
    ],
)
def test_functions_say_how_to_convert(call):
    with pytest.raises(TypeError, match=MESSAGE):
        call(stand_in()())


def test_subclasses_of_both_sides_are_refused():
    theirs, ours = type("Mine", (stand_in(),), {}), type("Ours", (torch.Tensor,), {})
    for x in (torch.ones(2).as_subclass(ours), torch.nn.Parameter(torch.ones(2))):
        with pytest.raises(TypeError, match=MESSAGE):
            x + theirs()
        with pytest.raises(TypeError, match=MESSAGE):
            theirs() + x


def test_other_classes_take_calls_over_as_before():
    class Other:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    assert torch.add(torch.ones(2), Other()) == "add"
    assert torch.ones(2) * Other() == "mul"
