"""`__torch_function__`: calls that overrides and modes see, and classes of results."""

import copy

import numpy as np
import pytest

import pytpu as torch
from pytpu.overrides import TorchFunctionMode


def name_of(function):
    """Return the name of a function that an override gets, such as `add`, or `grad.__get__` for a property."""
    name = function.__name__
    return name if name not in ("__get__", "__set__", "__delete__") else f"{function.__self__.__name__}.{name}"


class Plain(torch.Tensor):
    """A subclass without an override of its own."""


class Logged(torch.Tensor):
    """A subclass that records the names of the functions it overrides."""

    names = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(name_of(func))
        return super().__torch_function__(func, types, args, kwargs or {})


class Minus:
    """Another type. Each call with it returns -1."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return -1


@pytest.fixture
def names():
    """Return the names that `Logged` records."""
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


PROPERTIES = (
    "T",
    "mT",
    "H",
    "real",
    "data",
    "grad",
    "shape",
    "device",
    "dtype",
    "ndim",
    "requires_grad",
    "is_leaf",
    "grad_fn",
    "layout",
)


@pytest.mark.parametrize("name", PROPERTIES)
def test_overrides_see_properties(name, names):
    getattr(torch.ones(2, 2).as_subclass(Logged), name)
    assert names == [f"{name}.__get__"]


def test_overrides_see_assignments_to_properties(names):
    x = torch.ones(2).as_subclass(Logged)
    x.requires_grad = True
    x.data = torch.zeros(2)
    x.grad = torch.ones(2)
    x._grad = None
    x.note = 1
    assert names == ["requires_grad.__set__", "data.__set__", "grad.__set__", "grad.__set__"] and x.tolist() == [0, 0]


def test_overrides_see_deletions_of_properties(names):
    x = torch.ones(2).as_subclass(Logged)
    x.grad = torch.ones(2)
    names.clear()
    del x.grad
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        del x.requires_grad
    with pytest.raises(RuntimeError, match="Deleting tensor data is not allowed. Delete tensor instead!"):
        del x.data
    assert names == ["grad.__delete__", "requires_grad.__delete__", "data.__delete__"] and x.grad is None


def test_overrides_get_properties_as_objects_of_the_class():
    seen = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func, types, len(args)))

    x = torch.ones(2).as_subclass(Asked)
    assert x.shape is None and x.requires_grad is None
    x.requires_grad = True
    T = torch.Tensor
    assert seen == [
        (T.shape.__get__, (Asked,), 1),
        (T.requires_grad.__get__, (Asked,), 1),
        (T.requires_grad.__set__, (Asked,), 2),
    ]


HAND_WRITTEN = {
    "to": lambda x: x.to(torch.float64),
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "size": lambda x: x.size(0),
    "dim": lambda x: x.ndimension(),
    "numel": lambda x: x.nelement(),
    "stride": lambda x: x.stride(),
    "unique": lambda x: x.unique(),
    "norm": lambda x: x.norm(),
    "nonzero": lambda x: x.nonzero(),
    "allclose": lambda x: x.allclose(x),
    "__complex__": lambda x: complex(x),
    "is_contiguous": lambda x: x.is_contiguous(),
    "__len__": lambda x: len(x),
    "__bool__": lambda x: bool(x),
    "__float__": lambda x: float(x),
    "__int__": lambda x: int(x),
    "__contains__": lambda x: 1 in x,
    "unbind": lambda x: list(x),
    "__index__": lambda x: [5, 6][x.to(torch.int64)],
}


@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_overrides_and_modes_see_hand_written_methods(name, names):
    want = HAND_WRITTEN[name](torch.ones(1))
    got = HAND_WRITTEN[name](torch.ones(1).as_subclass(Logged))
    assert name in names
    assert torch.equal(torch.as_tensor(got), torch.as_tensor(want))


def test_modes_see_factories_properties_and_items():
    seen = []

    class Log(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((name_of(func), kwargs))
            return func(*args, **(kwargs or {}))

    with Log():
        x = torch.tensor([1.0], requires_grad=True, dtype=torch.float64)
        torch.as_tensor([1], dtype=torch.int64)
        torch.asarray([1])
        torch.scalar_tensor(1)
        made = len(seen)
        x.item(), x.shape, len(x), next(iter(x))
        x.grad = None
    assert [n for n, _ in seen] == [
        *("tensor", "as_tensor", "asarray", "scalar_tensor"),
        *("item", "shape.__get__", "__len__", "dim", "unbind", "grad.__set__"),
    ]
    assert [k for _, k in seen[:made]] == [
        {"requires_grad": True, "dtype": torch.float64},
        {"dtype": torch.int64},
        {},
        {},
    ]
    assert x.requires_grad and x.dtype == torch.float64


def test_functions_that_modes_see_are_those_of_torch():
    seen = []

    class Log(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return -1

    x = torch.ones(1)
    with Log():
        results = [
            torch.tensor([1]),
            torch.as_tensor([1]),
            torch.asarray([1]),
            torch.special.expit(x),
            torch.linalg.matmul(x, x),
        ]
    assert results == [-1] * 5
    assert seen == [torch.tensor, torch.as_tensor, torch.asarray, torch.special.expit, torch.linalg.matmul]


def test_conversions_and_views_keep_the_subclass():
    x = torch.ones(2, 2).as_subclass(Plain)
    for y in (x.to(torch.float64), x.to("cpu", copy=True), x.to("tpu"), x.T, x.mT, x.H, x.data, next(iter(x))):
        assert type(y) is Plain
    x.grad = torch.ones(2, 2)
    assert type(x.grad) is torch.Tensor


def test_rows_and_items_of_a_subclass_are_of_it(device):
    x = torch.arange(4.0, device=device).reshape(2, 2).as_subclass(Plain)
    first, second = x
    assert type(first) is type(second) is type(x[0]) is type(x[:, 1]) is Plain and second.tolist() == [2, 3]
    assert type(torch.arange(4, device=device)[x.long()]) is Plain
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(x.sum())


def test_other_types_are_indices_and_values():
    t = torch.tensor([5])
    assert t[Minus()] == t[Minus(), ...] == t[None, Minus()] == t[[Minus()]] == -1
    t[0] = Minus()
    t[Minus()] = 3
    t[0, Minus()] = 3
    assert t.tolist() == [5]


def test_subclasses_in_keys_are_asked(names):
    x = torch.zeros(3, 3)
    i = torch.tensor(1).as_subclass(Logged)
    assert type(x[i, 0]) is Logged and type(x[:, i]) is Logged
    x[0, i] = 2
    assert names == ["__getitem__", "__getitem__", "__setitem__"] and x.sum() == 2


def test_other_types_compute_their_grad():
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


class Declining(torch.Tensor):
    """A subclass whose override returns ``NotImplemented``."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Reflected:
    """Another type with reflected operators."""

    def __radd__(self, other):
        return "radd"

    def __rmatmul__(self, other):
        return "rmatmul"

    def __gt__(self, other):
        return "gt"


def test_operators_that_overrides_decline_are_tried_reflected():
    x = torch.ones(2).as_subclass(Declining)
    assert x + Reflected() == "radd" and x @ Reflected() == "rmatmul" and (x < Reflected()) == "gt"
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for -: 'Declining' and 'int'"):
        x - 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: torch.add(x, 1), "Multiple dispatch failed for 'torch.add'"),
        (lambda x: x.item(), "Multiple dispatch failed for 'torch.Tensor.item'"),
        (lambda x: x.shape, "Multiple dispatch failed for 'torch.Tensor.shape.__get__'"),
        (lambda x: setattr(x, "grad", None), "Multiple dispatch failed for 'torch.Tensor.grad.__set__'"),
        (lambda x: x[0], "Multiple dispatch failed for 'torch.Tensor.__getitem__'"),
        (
            lambda x: torch.nn.functional.relu(x),
            "no implementation found for 'torch.nn.functional.relu' on types that implement ",
        ),
    ],
)
def test_calls_that_all_decline_are_named(call, text):
    with pytest.raises(TypeError) as e:
        call(torch.ones(2).as_subclass(Declining))
    assert str(e.value).startswith(text) and "Declining'>" in str(e.value)


def test_overrides_that_call_themselves_end_with_a_recursion_error():
    class Endless(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = torch.ones(1).as_subclass(Endless)
    for call in (
        lambda: x.shape,
        lambda: x.size(),
        lambda: len(x),
        lambda: x + 1,
        lambda: x[0],
        lambda: setattr(x, "grad", None),
    ):
        with pytest.raises(RecursionError):
            call()


def test_overrides_and_modes_see_functions_of_autograd(names):
    seen = []

    class Log(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    torch.autograd.backward((x * 2).sum().as_subclass(Logged))
    y = (x * 2).sum()
    with Log():
        torch.autograd.backward([y], inputs=[x])
    assert names == ["backward"] and seen == [torch.autograd.backward] and x.grad.tolist() == [4, 4]


def test_hooks_of_a_backward_pass_see_modes_and_no_overrides(names):
    seen = []

    class Log(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    def hook(g):
        with Log():
            torch.exp(g)
        kinds.append(type(plain * 2))

    kinds, plain = [], torch.ones(2).as_subclass(Plain)
    x = torch.ones(2, requires_grad=True)
    x.register_hook(hook)
    (x * 2).sum().as_subclass(Logged).backward()
    assert seen == ["exp"] and kinds == [torch.Tensor]


def test_blocks_disable_overrides_or_all():
    class Tenth(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 0.1 if func is torch.Tensor.add else func(*args, **(kwargs or {}))

    x = torch.ones(2, 2).as_subclass(Plain)
    enabled, all_disabled = torch._C._is_torch_function_enabled, torch._C._is_torch_function_all_disabled
    assert enabled() and not all_disabled()
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is type(x.T) is type(x[0]) is type(x.data) is torch.Tensor
        assert not enabled() and not all_disabled()
        with Tenth():
            assert x + 1 == 0.1
            with torch._C.DisableTorchFunction():
                assert type(x + 1) is torch.Tensor and all_disabled()
    assert enabled() and type(x + 1) is Plain


def test_modes_see_parameters():
    seen = []

    class Log(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((name_of(func), types))
            return func(*args, **(kwargs or {}))

    p = torch.nn.Parameter(torch.ones(2))
    with Log():
        p.shape, p.dim(), p + 1
    assert seen == [("shape.__get__", (torch.nn.Parameter,)), ("dim", (torch.nn.Parameter,)), ("add", ())]


def test_numpy_functions_give_the_subclass():
    assert type(np.add(torch.ones(2).as_subclass(Plain), 1)) is Plain
