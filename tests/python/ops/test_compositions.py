"""Functions that are compositions of others: values, dtypes, `out=` and errors as in PyTorch."""

import math

import pytest

import pytpu as torch
import pytpu.nn.attention

X = torch.arange(6.0).view(2, 3)
PLACES = torch.arange(3)
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (
            lambda d: torch.isclose(torch.tensor([1.0, 2.0], device=d), torch.tensor([1.0, 2.1], device=d)),
            [True, False],
        ),
        (
            lambda d: torch.isclose(
                torch.tensor([INF, INF, NAN], device=d), torch.tensor([INF, 1.0, NAN], device=d), rtol=INF
            ),
            [True, False, False],
        ),
        (
            lambda d: torch.isclose(
                torch.tensor([NAN, 1.0], device=d), torch.tensor([NAN, NAN], device=d), equal_nan=True
            ),
            [True, False],
        ),
        (lambda d: torch.isclose(PLACES.to(d), PLACES.to(d) + 1, atol=1), [True, True, True]),
        # Integers are compared in float32, which holds neither number apart from the other.
        (
            lambda d: torch.isclose(
                torch.tensor([16777217], device=d), torch.tensor([16777216], device=d), rtol=0, atol=0.5
            ),
            [True],
        ),
        (lambda d: torch.count_nonzero(X.to(d), 0), [1, 2, 2]),
        (lambda d: X.to(d).count_nonzero(dim=(0, 1)), 5),
        (lambda d: torch.count_nonzero(torch.tensor([NAN, 0.0], device=d)), 1),
        (lambda d: torch.diff(torch.tensor([1, 4, 9], device=d)), [3, 5]),
        (lambda d: torch.diff(torch.tensor([True, False, True], device=d)), [True, True]),
        (lambda d: torch.diff(X.to(d), 5, -1, X.to(d), X.to(d)), [[-18.0, 9.0, 9.0, -18.0]] * 2),
        (
            lambda d: torch.diff(PLACES.to(d), prepend=torch.tensor([5], device=d), append=PLACES.to(d)),
            [-5, 1, 1, -2, 1, 1],
        ),
        (lambda d: torch.inner(X.to(d), torch.ones(3, device=d)), [3.0, 12.0]),
        (lambda d: torch.inner(PLACES.to(d), torch.tensor(2.0, device=d)), [0.0, 2.0, 4.0]),
        (lambda d: torch.tensordot(X.to(d), X.to(d)), 55.0),
        (lambda d: torch.tensordot(X.to(d), X.to(d), torch.tensor([[1], [1]])), [[5.0, 14.0], [14.0, 50.0]]),
        (lambda d: torch.tensordot(torch.ones(2, 1, device=d), X.to(d), 1), [[3.0, 5.0, 7.0]] * 2),
    ],
)
def test_values_equal_pytorchs(call, wanted, device):
    assert call(device).tolist() == wanted


def test_allclose_is_a_bool(device):
    x = X.to(device)
    assert torch.allclose(x, x + 1e-9) is True
    assert x.allclose(x + 1, rtol=0.0, atol=0.5) is False
    assert torch.allclose(torch.ones(0, device=device), torch.ones(3, 1, device=device)) is True


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: torch.isclose(X, 1.0),
            TypeError,
            "isclose(): argument 'other' (position 2) must be Tensor, not float",
        ),
        (lambda: torch.isclose(X, PLACES), RuntimeError, "Float did not match Long"),
        (lambda: torch.allclose(X, PLACES), RuntimeError, "Float did not match Long"),
        (lambda: torch.isclose(X, X, -1.0), RuntimeError, "rtol must be greater than or equal to zero, but got -1"),
        (lambda: torch.isclose(X, X, 0, NAN), RuntimeError, "atol must be greater than or equal to zero, but got nan"),
        (
            lambda: torch.allclose(X, X, "a"),
            TypeError,
            "allclose(): argument 'rtol' (position 3) must be float, not str",
        ),
        (
            lambda: torch.isclose(X, X, rtol=torch.ones(1)),
            TypeError,
            "isclose(): argument 'rtol' must be float, not Tensor",
        ),
        (lambda: torch.count_nonzero(X, (0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
        (
            lambda: torch.count_nonzero(1),
            TypeError,
            "count_nonzero(): argument 'input' (position 1) must be Tensor, not int",
        ),
        (lambda: torch.diff(torch.tensor(2.0)), RuntimeError, "diff expects input to be at least one-dimensional"),
        (lambda: torch.diff(X, -1), RuntimeError, "order must be non-negative but got -1"),
        (
            lambda: torch.diff(X, append=torch.ones(3, 1)),
            RuntimeError,
            "diff expects the shape of tensor to prepend or append to match that of input except along the "
            "differencing dimension; input.size(0) = 2, but got tensor.size(0) = 3",
        ),
        (
            lambda: torch.diff(X, append=torch.ones(2)),
            RuntimeError,
            "diff expects prepend or append to be the same dimension as input",
        ),
        (lambda: torch.diff(X, 1.5), TypeError, "diff(): argument 'n' (position 2) must be int, not float"),
        (
            lambda: torch.inner(X, torch.ones(4)),
            RuntimeError,
            "inner() the last dimension must match on both input tensors but got shapes [2, 3] and [4]",
        ),
        (lambda: torch.inner(X, PLACES), RuntimeError, "both inputs should have same dtype"),
        (lambda: torch.inner(PLACES > 0, PLACES > 0), NotImplementedError, "\"dot\" not implemented for 'Bool'"),
        (
            lambda: torch.tensordot(X, X, 1),
            RuntimeError,
            "contracted dimensions need to match, but first has size 3 in dim -1 and second has size 2 in dim 0",
        ),
        (lambda: torch.tensordot(X, X, -1), RuntimeError, "tensordot expects dims >= 0, but got dims=-1"),
        (lambda: torch.tensordot(X, X, ([1, 0], [1])), RuntimeError, "both dimension lists should have same length"),
        (
            lambda: torch.tensordot(X, X, ([5], [1])),
            IndexError,
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)",
        ),
        (
            lambda: torch.tensordot(X, X, (1, 1)),
            TypeError,
            "tensordot(): argument 'dims_self' (position 3) must be tuple of ints, not int",
        ),
        (
            lambda: torch.tensordot(X, X, "a"),
            RuntimeError,
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            "but got dims=a",
        ),
        (
            lambda: torch.tensordot(X, X, ([1], [1]), out=torch.empty(2, 2, dtype=torch.float64)),
            RuntimeError,
            "tensordot: Expected the output tensor to have dtype Float, but got an output tensor with dtype Double",
        ),
    ],
)
def test_errors_are_pytorchs(call, kind, message):
    with pytest.raises(kind) as e:
        call()
    assert str(e.value) == message


def test_results_are_written_to_out():
    out = torch.empty(0)
    assert torch.diff(X, out=out) is out and out.tolist() == [[1.0, 1.0]] * 2
    out = torch.empty(2, 2)
    assert torch.inner(X, X, out=out) is out and out.tolist() == [[5.0, 14.0], [14.0, 50.0]]
    assert torch.tensordot(X, X, ([1], [1]), out=out) is out and out[1, 1].item() == 50.0
    x = X.clone()
    assert torch.diff(x, n=0, out=x).tolist() == X.tolist()
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        torch.isclose(X, X, out=out)


def test_a_difference_longer_than_the_tensor_is_empty_and_contiguous():
    x = X.clone().requires_grad_()
    y = torch.diff(x, 3)
    assert y.shape == (2, 0) and y.stride() == (1, 1) and y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [[0.0] * 3] * 2


def test_inner_products_keep_float32_under_autocast():
    v = torch.ones(3)
    with torch.autocast("cpu"):
        assert torch.inner(X, X).dtype == torch.bfloat16
        assert torch.tensordot(v, v, 1).dtype == torch.float32
        assert torch.inner(X, torch.tensor(2.0)).dtype == torch.float32
        with pytest.raises(RuntimeError, match="both inputs should have same dtype"):
            torch.tensordot(X, X.bfloat16(), 2)


def test_rms_norm_of_16_bits_takes_the_epsilon_of_float32(device):
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.full((4,), 1e-2, dtype=dtype, device=device)
        assert torch.nn.functional.rms_norm(x, (4,)).tolist() == pytest.approx([1.0] * 4, abs=1e-3)


def test_the_entropy_of_zero_is_positive_zero(device):
    y = torch.special.entr(torch.tensor([0.0, -0.0, 1.0, 0.5, -1.0, INF, NAN], device=device))
    assert not y[0].signbit().item()
    assert y[3].item() == pytest.approx(0.5 * math.log(2)) and y[4].item() == -INF and y[6].isnan()


def test_heaviside_has_no_derivative():
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    y = torch.heaviside(x, torch.tensor(0.5))
    assert y.requires_grad and y.tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(RuntimeError, match="derivative for aten::heaviside is not implemented"):
        y.sum().backward()
    assert not torch.heaviside(x.detach(), torch.tensor(0.5)).requires_grad


def test_repeat_interleave_checks_its_output_size():
    times = torch.tensor([1, 2, 3])
    assert torch.repeat_interleave(PLACES, times, output_size=6).tolist() == [0, 1, 1, 2, 2, 2]
    assert torch.repeat_interleave(PLACES, 2, output_size=6).tolist() == [0, 0, 1, 1, 2, 2]
    for given in (5, 7):
        with pytest.raises(RuntimeError, match="allocated size does not match required size"):
            torch.repeat_interleave(PLACES, times, output_size=given)
    with pytest.raises(RuntimeError, match="repeat_interleave: Invalid output_size, expected 6 but got 5"):
        torch.repeat_interleave(PLACES, 2, output_size=5)


def test_addr_expands_its_input_to_the_product():
    a, b = torch.ones(2), torch.ones(3)
    assert torch.addr(torch.ones(3), a, b).tolist() == [[2.0] * 3] * 2
    for wide in (torch.ones(5, 2, 3), torch.ones(1, 2, 3)):
        with pytest.raises(RuntimeError, match="the number of sizes provided \\(2\\) must be greater or equal"):
            torch.addr(wide, a, b)
    with pytest.raises(
        RuntimeError, match="The expanded size of the tensor \\(1\\) must match the existing size \\(2\\)"
    ):
        torch.addr(torch.ones(2, 3), torch.ones(1), b)


def test_messages_name_the_function():
    with pytest.raises(RuntimeError, match="ZeroDivisionError: alpha cannot be 0 for CELU"):
        torch.nn.functional.celu(X, 0.0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: alpha cannot be 0 for CELU"):
        torch.nn.functional.celu(X.clone(), 0.0, inplace=True)
    half = torch.ones(2, dtype=torch.float16)
    with pytest.raises(NotImplementedError, match="\"zeta_cpu\" not implemented for 'Half'"):
        torch.special.zeta(half, half)
    with pytest.raises(AssertionError, match="a list of SDPBackend instances, got str$"):
        torch.nn.attention.sdpa_kernel("a").__enter__()


def test_from_numpy_asks_for_the_array_interface_once():
    numpy = pytest.importorskip("numpy")

    class Counted(numpy.ndarray):
        asked = 0

        def __getattribute__(self, name):
            if name == "__array_interface__":
                Counted.asked += 1
            return super().__getattribute__(name)

    array = numpy.zeros(3, dtype=numpy.float32).view(Counted)
    x = torch.from_numpy(array)
    assert Counted.asked == 1
    x[0] = 5
    assert array.tolist() == [5.0, 0.0, 0.0]
