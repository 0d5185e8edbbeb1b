"""Arguments of functions and methods, and PyTorch 2.15's messages for wrong ones."""

import pytest

import pytpu as torch

x = torch.ones(2, 3)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: x.add("a"), TypeError, "add(): argument 'other' (position 1) must be Tensor, not str"),
        (lambda: torch.add(x, "a"), TypeError, "add(): argument 'other' (position 2) must be Tensor, not str"),
        (lambda: x.add(x, alpha="s"), TypeError, "add(): argument 'alpha' must be Number, not str"),
        (lambda: x.add(x, beta=1), TypeError, "add() got an unexpected keyword argument 'beta'"),
        (lambda: x.add(x, other=x), TypeError, "add() got multiple values for argument 'other'"),
        (lambda: torch.relu(x, 1), TypeError, "relu() takes 1 positional argument but 2 were given"),
        (lambda: torch.stack([x, 1]), TypeError, "expected Tensor as element 1 in argument 0, but got int"),
        (
            lambda: torch.stack(5),
            TypeError,
            "stack(): argument 'tensors' (position 1) must be tuple of Tensors, not int",
        ),
        (lambda: x.transpose(True, 0), TypeError, "must be int, not bool"),
        (lambda: x @ x, RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
        (lambda: torch.zeros(2, device="foo"), RuntimeError, "device type at start of device string: foo"),
        (lambda: torch.zeros(2, dtype=3), TypeError, "zeros(): argument 'dtype' must be torch.dtype, not int"),
        (
            lambda: x.view(2, "a"),
            TypeError,
            'failed to unpack the object at pos 2 with error "type must be tuple of ints,but got str"',
        ),
        (
            lambda: x.sum("a"),
            TypeError,
            "sum() received an invalid combination of arguments - got (str), but expected one of:",
        ),
        (lambda: x.sum("a"), TypeError, "didn't match because some of the arguments have invalid types: (!str!)"),
        (lambda: x + "a", TypeError, "unsupported operand type(s) for +"),
        (lambda: bool(x), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
        (lambda: x.item(), RuntimeError, "a Tensor with 6 elements cannot be converted to Scalar"),
        (lambda: len(torch.tensor(1)), TypeError, "len() of a 0-d tensor"),
        (lambda: iter(torch.tensor(1)), TypeError, "iteration over a 0-d tensor"),
        (lambda: x.sum(2**70), TypeError, "sum()"),
    ],
)
def test_error_text(call, error, text):
    with pytest.raises(error) as e:
        call()
    assert text in str(e.value)


def test_error_is_at_the_callers_line():
    with pytest.raises(TypeError) as e:
        x.add("a")
    assert e.traceback[-1].path.name == "test_arguments.py"


def test_keywords_and_names():
    assert torch.sum(input=x, dim=1).tolist() == [3.0, 3.0]
    assert torch.sum(x, axis=0).tolist() == [2.0, 2.0, 2.0]
    assert x.sum(dim=(0, 1)).item() == 6.0
    assert torch.add(x, other=x, alpha=3)[0, 0].item() == 4.0
    assert torch.add(2, x)[0, 0].item() == 3.0


def test_a_list_of_integers_may_be_given_one_by_one():
    assert x.view(3, 2).shape == x.view((3, 2)).shape == x.view([3, 2]).shape == (3, 2)
    assert x.view(-1).shape == (6,)
    assert torch.zeros(2, 3).shape == torch.zeros([2, 3]).shape == torch.zeros(torch.Size([2, 3])).shape
    assert torch.zeros(()).shape == ()
    n = torch.tensor(3)
    assert torch.zeros(2, n).shape == (2, 3)


def test_long_lists_leave_the_stack():
    y = torch.arange(40)
    parts = y.split([1] * 40)
    assert [p.item() for p in parts] == list(range(40))


def test_numpy_scalars_are_numbers():
    np = pytest.importorskip("numpy")
    assert (x * np.float32(2)).dtype == torch.float32
    assert x.sum(np.int64(1)).tolist() == [3.0, 3.0]
    assert x[np.int64(1)].tolist() == [1.0, 1.0, 1.0]


def test_out():
    out = torch.empty(2, 3)
    assert torch.add(x, x, out=out) is out
    assert out.tolist() == [[2.0] * 3] * 2
    grown = torch.empty(0)
    torch.add(x, x, out=grown)
    assert grown.shape == (2, 3)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.add(x, x, out=torch.empty(2, 3, dtype=torch.long))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.add(x.clone().requires_grad_(), x, out=out)


def test_named_tuples():
    r = torch.tensor([[1.0, 5.0], [7.0, 2.0]]).max(dim=1)
    assert r.values.tolist() == [5.0, 7.0] and r.indices.tolist() == [1, 0]
    values, indices = r
    assert values is r[0] and indices is r[1]
    assert type(r).__name__ == "max"


def test_factories_take_requires_grad_and_device():
    y = torch.zeros(2, requires_grad=True)
    assert y.requires_grad and y.is_leaf
    assert torch.ones_like(y, requires_grad=True).requires_grad
    with torch.device("meta"):
        assert torch.zeros(2).device.type == "meta"
    assert torch.zeros(2).device.type == "cpu"


def test_overload_takes_an_argument_named_self():
    assert torch.ops.aten.reshape.default(self=torch.rand(1, 2), shape=[2]).shape == (2,)
    assert torch.ops.aten.relu(self=torch.tensor([-1.0])).item() == 0
