"""Classes of tensors that answer calls themselves: ``__torch_dispatch__``."""

import copy
import gc
import weakref

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F
from pytpu.utils._mode_utils import no_dispatch
from pytpu.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from pytpu.utils._pytree import tree_map


class Wrapper(torch.Tensor):
    """A tensor that holds another one, and computes with it."""

    calls = []
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, elem, *, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            device=elem.device,
            requires_grad=requires_grad,
        )
        made.elem = elem
        return made

    def __repr__(self):
        return f"Wrapper({self.elem})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Wrapper.calls.append(str(func).removeprefix("aten."))
        result = func(*tree_map(inner, args), **tree_map(inner, kwargs or {}))
        return return_and_correct_aliasing(func, args, kwargs, tree_map(wrapped, result))


def inner(value):
    return value.elem if isinstance(value, Wrapper) else value


def wrapped(value):
    return Wrapper(value) if type(value) is torch.Tensor else value


def numbers(*shape):
    n = torch.Size(shape).numel()
    return (torch.arange(1.0, n + 1) * 0.37).sin().reshape(shape)


@pytest.fixture(autouse=True)
def _fresh():
    Wrapper.calls.clear()


# Each is a function of one tensor of sizes (3, 4). The names are those that PyTorch gives the forward calls.
CALLS = {
    "add": (lambda x: x + 1, ["add.Tensor"]),
    "minus": (lambda x: 2 - x, ["rsub.Scalar"]),
    "square": (lambda x: x * x, ["mul.Tensor"]),
    "quotient": (lambda x: x / (x + 3), ["add.Tensor", "div.Tensor"]),
    "power": (lambda x: x**3, ["pow.Tensor_Scalar"]),
    "exp": (lambda x: x.exp(), ["exp.default"]),
    "tanh": (lambda x: x.tanh(), ["tanh.default"]),
    "product": (lambda x: x @ x.t(), ["t.default", "mm.default"]),
    "sum": (lambda x: x.sum(0), ["sum.dim_IntList"]),
    "max": (lambda x: x.max(1)[0], ["max.dim"]),
    "view": (lambda x: x.view(2, 6), ["view.default"]),
    "reshape": (lambda x: x.t().reshape(2, 6), ["t.default", "clone.default", "view.default"]),
    "row": (lambda x: x[1], ["select.int"]),
    "columns": (lambda x: x[:, 1:3], ["slice.Tensor"]),
    "rows by index": (lambda x: x[torch.tensor([0, 2])], ["index.Tensor"]),
    "diagonal": (lambda x: x.diagonal(1), ["diagonal.default"]),
    "cat": (lambda x: torch.cat([x, x]), ["cat.default"]),
    "stack": (lambda x: torch.stack([x, x], 1), ["stack.default"]),
    "split": (lambda x: x.split(2, 1)[0], ["split.Tensor"]),
    "where": (lambda x: torch.where(x > 0, x, x * 2), ["gt.Scalar", "mul.Tensor", "where.self"]),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), ["clamp.default"]),
    "linear": (lambda x: F.linear(x, numbers(5, 4), numbers(5)), ["addmm.default"]),
    "relu": (lambda x: F.relu(x), ["relu.default"]),
    "gelu": (lambda x: F.gelu(x), ["gelu.default"]),
    "softmax": (lambda x: x.softmax(1), ["_softmax.default"]),
    "log_softmax": (lambda x: x.log_softmax(1), ["_log_softmax.default"]),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), ["native_layer_norm.default"]),
    "batch_norm": (
        lambda x: F.batch_norm(x, numbers(4), numbers(4) ** 2, training=True),
        ["native_batch_norm.default"],
    ),
    "conv1d": (lambda x: F.conv1d(x[None], numbers(2, 3, 2)), ["unsqueeze.default", "convolution.default"]),
    "cumsum": (lambda x: x.cumsum(1), ["cumsum.default"]),
    "sort": (lambda x: x.sort(1)[0], ["sort.default"]),
    "to": (lambda x: x.to(torch.float64), ["_to_copy.default"]),
    "mse": (lambda x: F.mse_loss(x, numbers(3, 4) * 2), ["mse_loss.default"]),
}

WITH_OTHERS = {"linear", "conv1d", "batch_norm", "mse", "rows by index"}
# With history, the class gets their parts, since backward needs values between these.
IN_PARTS = {"max", "clamp", "mse"}


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("name", CALLS)
def test_a_wrapper_has_the_values_gradients_and_names_of_calls(name, device):
    function, names = CALLS[name]
    if device == "tpu" and name in WITH_OTHERS:
        return  # the other operands are on cpu
    x = numbers(3, 4).to(device).requires_grad_()
    y = function(x)
    y.pow(2).sum().backward()
    w = Wrapper(numbers(3, 4).to(device), requires_grad=True)
    z = function(w)
    made = list(Wrapper.calls)
    z.pow(2).sum().backward()
    assert type(z) is Wrapper and z.shape == y.shape and z.dtype == y.dtype and z.device == y.device
    torch.testing.assert_close(z.elem, y.detach())
    assert type(w.grad) is Wrapper
    torch.testing.assert_close(w.grad.elem, x.grad)
    if name not in IN_PARTS:
        assert made == names
    Wrapper.calls.clear()
    with torch.no_grad():
        function(Wrapper(numbers(3, 4).to(device)))
    without_history = [*names[:-1], "_unsafe_view.default"] if name == "reshape" else names
    assert Wrapper.calls == without_history


def test_dropout_draws_its_numbers_once():
    w = Wrapper(torch.ones(1000), requires_grad=True)
    torch.manual_seed(0)
    y = F.dropout(w, 0.5)
    y.sum().backward()
    assert torch.equal(w.grad.elem, y.elem.detach())
    torch.manual_seed(0)
    assert torch.equal(F.dropout(torch.ones(1000), 0.5), y.elem.detach())


def test_in_place_calls_return_the_object_that_they_write():
    w = Wrapper(torch.ones(2))
    assert w.add_(1) is w and w.elem.tolist() == [2.0, 2.0]
    w *= 3
    w[0] = 7
    assert w.elem.tolist() == [7.0, 6.0]
    assert Wrapper.calls == ["add_.Tensor", "mul_.Tensor", "select.int", "fill_.Scalar"]
    torch.add(w, 1, out=w)
    assert w.elem.tolist() == [8.0, 7.0] and Wrapper.calls[-1] == "add.out"


def test_in_place_calls_have_history():
    w = Wrapper(numbers(3), requires_grad=True)
    x = numbers(3).requires_grad_()
    for leaf in (w, x):
        y = leaf * 2
        y.mul_(leaf).sin_()
        y.sum().backward()
    torch.testing.assert_close(w.grad.elem, x.grad)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        w.add_(1)
    view = (w * 2)[0]
    with pytest.raises(NotImplementedError, match="a view of a tensor whose class answers calls"):
        view.add_(1)


def test_running_statistics_are_updated_once():
    norms = [nn.BatchNorm1d(4) for _ in range(2)]
    x = numbers(3, 4)
    w = Wrapper(x.clone(), requires_grad=True)
    norms[0](x)
    norms[1](w).pow(2).sum().backward()
    torch.testing.assert_close(norms[1].running_mean, norms[0].running_mean)
    torch.testing.assert_close(norms[1].running_var, norms[0].running_var)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_wrapped_parameters_are_trained(kind):
    def train(wrap):
        layer = nn.Linear(3, 4)
        with torch.no_grad():
            layer.weight.copy_(numbers(4, 3))
            layer.bias.copy_(numbers(4))
        if wrap:
            layer.weight = nn.Parameter(Wrapper(layer.weight.detach()))
        optimizer = getattr(torch.optim, kind)(layer.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            layer(numbers(5, 3)).pow(2).sum().backward()
            optimizer.step()
        return layer.weight

    weight = train(wrap=True)
    assert isinstance(weight, nn.Parameter)
    torch.testing.assert_close(weight.elem, train(wrap=False).detach())


def test_a_number_is_read_by_the_class():
    w = Wrapper(torch.tensor([2.0]))
    with pytest.raises(TypeError, match="_local_scalar_dense must return a number"):

        class Silent(Wrapper):
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                return "two"

        Silent(torch.tensor([2.0])).item()
    assert w.item() == 2.0 and float(w) == 2.0 and bool(w > 1)
    assert Wrapper.calls == ["_local_scalar_dense.default"] * 2 + ["gt.Scalar", "_local_scalar_dense.default"]


def test_values_that_are_not_there_are_not_made_up():
    w = Wrapper(torch.ones(2))
    with no_dispatch(), pytest.raises(RuntimeError, match="has no elements of its own"):
        w + 1
    with pytest.raises(RuntimeError, match="must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(nn.Parameter, (2,))


def test_a_class_may_refuse():
    class Refuses(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="all __torch_dispatch__ handlers returned NotImplemented"):
        torch.exp(Refuses(torch.ones(2)))
    with pytest.raises(TypeError, match="unsupported operand"):
        Refuses(torch.ones(2)) + 1


def test_the_subclass_is_asked_before_its_base():
    class Derived(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            assert types == (Derived, Wrapper)
            return "derived"

    assert torch.add(Wrapper(torch.ones(2)), Derived(torch.ones(2))) == "derived"


def test_modes_come_before_classes():
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), types))
            return func(*args, **(kwargs or {}))

    seen = []
    w = Wrapper(torch.ones(2))
    with Log():
        w + 1
    assert seen[0] == ("aten.add.Tensor", (Wrapper,)) and Wrapper.calls == ["add.Tensor"]


class Held(torch.Tensor):
    """A tensor with elements whose class sees each call."""

    calls = []

    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_subclass(cls, data)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Held.calls.append(str(func))
        with no_dispatch():
            return func(*args, **(kwargs or {}))


def test_a_class_may_hold_elements():
    Held.calls.clear()
    x = Held(torch.ones(2, 2))
    assert (x + 1).tolist() == [[2.0, 2.0]] * 2
    x.mul_(3)
    assert torch.mm(x, x).sum().item() == 72.0
    assert Held.calls[:3] == ["aten.add.Tensor", "aten.mul_.Tensor", "aten.mm.default"]


def test_attributes_outlive_the_object_and_die_with_the_tensor():
    w = Wrapper(torch.ones(2), requires_grad=True)
    y = w * w
    note = type("Note", (), {})()
    w.note, gone = note, weakref.ref(note)
    leaf = w.elem
    del w, note
    gc.collect()
    assert gone() is not None  # backward needs the operand
    y.sum().backward()
    del y
    gc.collect()
    assert gone() is None and leaf.tolist() == [1.0, 1.0]


def test_copies_are_of_the_class():
    w = Wrapper(torch.ones(2))
    other = copy.deepcopy(w)
    other.add_(1)
    assert type(other) is Wrapper and w.elem.tolist() == [1.0, 1.0] and other.elem.tolist() == [2.0, 2.0]
    assert type(w.detach()) is Wrapper
