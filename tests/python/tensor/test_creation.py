"""Tensors from factories, `out=`, data of all kinds, `asarray`, and random numbers within bounds."""

import warnings

import numpy as np
import pytest

import pytpu as torch
import pytpu.testing


def test_arange_writes_through_a_view_of_the_right_number_of_elements():
    x = torch.zeros(2, 3)
    torch.arange(0, 4, out=x.narrow(1, 1, 2))
    assert x.tolist() == [[0, 0, 1], [0, 2, 3]]


def test_linspace_and_logspace_write_through_a_view():
    x = torch.zeros(2, 3)
    torch.linspace(0, 3, 4, out=x.narrow(1, 1, 2))
    assert x.tolist() == [[0, 0, 1], [0, 2, 3]]
    torch.logspace(0, 3, 4, base=2, out=x.narrow(1, 0, 2))
    assert x.tolist() == [[1, 2, 1], [4, 8, 3]]


def test_arange_of_another_number_of_elements_resizes_with_a_warning():
    x = torch.zeros(2, 3)
    with pytest.warns(UserWarning, match="number of elements in the out tensor of shape"):
        torch.arange(0, 4, out=x)
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "make, want",
    [
        (lambda o: torch.eye(2, out=o), [[1, 0], [0, 1]]),
        (lambda o: torch.full((2,), 1.0, out=o), [1, 1]),
        (lambda o: torch.linspace(0, 2, 3, out=o), [0, 1, 2]),
        (lambda o: torch.arange(3, out=o), [0, 1, 2]),
        (lambda o: torch.zeros(2, out=o), [0, 0]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float64])
def test_factories_compute_in_the_dtype_of_out(make, want, dtype):
    out = torch.empty(0, dtype=dtype)
    make(out)
    assert out.dtype == dtype and out.tolist() == want


def test_factories_resize_out_without_a_warning():
    out = torch.empty(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.zeros(2, 2, out=out)
    assert out.shape == (2, 2)


def test_another_dtype_than_that_of_out_is_refused():
    for make in (torch.zeros, torch.ones, torch.empty, torch.rand):
        with pytest.raises(RuntimeError, match="does not match dtype of out parameter"):
            make(2, dtype=torch.float64, out=torch.zeros(2))
    with pytest.raises(RuntimeError, match=r"dtype Long does not match dtype of out parameter \(Float\)"):
        torch.zeros(2, dtype=torch.int64, out=torch.zeros(2))


def test_another_device_than_that_of_out_is_refused():
    with pytest.raises(RuntimeError, match=r"device type meta does not match device type of out parameter \(cpu\)"):
        torch.zeros(2, device="meta", out=torch.zeros(2))


@pytest.mark.parametrize("name", ["rand", "randn"])
def test_random_numbers_into_complex_out_have_imaginary_parts(name):
    make = getattr(torch, name)
    torch.manual_seed(0)
    want = make(3, dtype=torch.complex64)
    torch.manual_seed(0)
    got = make(3, out=torch.empty(0, dtype=torch.complex64))
    assert torch.equal(got, want)


def test_bernoulli_into_integers():
    out = torch.empty(3, dtype=torch.uint8)
    torch.bernoulli(torch.ones(3), out=out)
    assert out.tolist() == [1, 1, 1]


def test_nonzero_into_another_dtype_is_refused():
    with pytest.raises(RuntimeError, match="nonzero: Expected out tensor to have scalar type Long"):
        torch.nonzero(torch.ones(3), out=torch.empty(0))
    with pytest.raises(RuntimeError, match="does not support the out kwarg when as_tuple is True"):
        torch.nonzero(torch.ones(3), as_tuple=True, out=torch.empty(0, dtype=torch.int64))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "cumprod", "softmax", "log_softmax"])
def test_reduction_with_dtype_into_another_dtype_is_refused(name):
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype double, but got float instead"):
        getattr(torch, name)(torch.ones(2), dim=0, dtype=torch.float64, out=torch.empty(()))


def test_sum_computes_in_the_dtype_of_out():
    out = torch.empty((), dtype=torch.int32)
    torch.sum(torch.tensor([1.0, 2.0]), 0, out=out)
    assert out.item() == 3
    x = torch.full((4,), 2.0**24)
    x[0] = 1
    assert torch.sum(x, 0, out=torch.empty((), dtype=torch.float64)).item() == 3 * 2.0**24 + 1


def test_functions_of_lists_write_into_a_list():
    out = [torch.empty(1), torch.empty(2)]
    assert torch.split_with_sizes_copy(torch.arange(3.0), [1, 2], out=out) is None
    assert [o.tolist() for o in out] == [[0], [1, 2]]


def test_out_returns_a_named_tuple_of_its_own_type():
    out = torch.empty(2), torch.empty(2, dtype=torch.int64)
    r = torch.max(torch.tensor([[1.0, 2], [4, 3]]), 1, out=out)
    assert type(r) is torch.return_types.max_out and r.values is out[0] and r.indices.tolist() == [1, 0]


@pytest.mark.parametrize(
    "dtype, low, high, what",
    [
        (torch.int8, -200, 5, "from is out of bounds for signed char"),
        (torch.int8, 0, 1000, "to - 1 is out of bounds for signed char"),
        (torch.uint8, -1, 5, "from is out of bounds for unsigned char"),
        (torch.bool, 0, 3, "to - 1 is out of bounds for bool"),
        (torch.float16, 0, 70000, "to - 1 is out of bounds for c10::Half"),
    ],
)
def test_random_integers_that_the_dtype_cannot_hold_are_refused(device, dtype, low, high, what):
    with pytest.raises(RuntimeError, match=what):
        torch.empty(3, dtype=dtype, device=device).random_(low, high)
    with pytest.raises(RuntimeError, match=what):
        torch.randint(low, high, (3,), dtype=dtype, device=device)


def test_random_integers_beyond_exact_floats_warn():
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^24\), 2\^24\]"):
        torch.empty(3).random_(0, 2**25)


def test_uniform_numbers_that_the_dtype_cannot_hold_are_refused(device):
    with pytest.raises(RuntimeError, match="to-from to exceed the limit"):
        torch.empty(1, device=device).uniform_(-3e38, 3e38)
    with pytest.raises(RuntimeError, match="to is out of bounds for c10::Half"):
        torch.empty(1, dtype=torch.float16, device=device).uniform_(0, 1e6)


def test_permutation_that_the_dtype_cannot_hold_is_refused():
    with pytest.raises(RuntimeError, match="n is too large for result tensor type"):
        torch.randperm(300, dtype=torch.uint8)


def test_too_many_categories_are_refused():
    with pytest.raises(RuntimeError, match="number of categories cannot exceed 2\\^24"):
        torch.multinomial(torch.ones(2**24 + 1), 1)


def test_integers_of_more_than_64_bits_become_floats():
    assert torch.tensor(2**64, dtype=torch.float32).item() == 2.0**64
    assert torch.tensor([2**64, 1.0]).tolist() == [2.0**64, 1.0]
    assert torch.tensor(np.iinfo(np.uint64).max, dtype=torch.float64).item() == 2.0**64
    assert torch.tensor(2**64, dtype=torch.bool).item() is True


def test_integers_of_more_than_64_bits_do_not_fit_integers():
    for dtype in (None, torch.int64, torch.int32):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            torch.tensor(2**64, dtype=dtype)
    with pytest.raises(OverflowError):
        torch.tensor(10**400, dtype=torch.float64)


def test_tensor_of_an_object_with_dlpack_alone():
    class Exporter:
        def __init__(self, t):
            self.t = t

        def __dlpack__(self, stream=None):
            return self.t.__dlpack__()

        def __dlpack_device__(self):
            return self.t.__dlpack_device__()

    x = torch.ones(2)
    y = torch.tensor(Exporter(x))
    assert y.tolist() == [1, 1] and y.data_ptr() != x.data_ptr()


def test_asarray_of_buffers_keeps_their_dtype_and_memory():
    for dtype in (np.float16, np.complex64, np.int32):
        array = np.ones(2, dtype)
        t = torch.asarray(memoryview(array))
        array[0] = 5
        assert str(t.dtype) == f"torch.{np.dtype(dtype)}" and t[0].item() == 5
    assert torch.asarray(bytearray(8)).dtype == torch.uint8
    assert torch.asarray(bytearray(8), dtype=torch.int32).tolist() == [0, 0]


def test_asarray_of_a_capsule():
    assert torch.asarray(torch.utils.dlpack.to_dlpack(torch.ones(2))).tolist() == [1, 1]


def test_asarray_follows_requires_grad():
    leaf = torch.ones(2, requires_grad=True)
    assert torch.asarray(leaf, requires_grad=True) is leaf
    assert not torch.asarray(leaf, requires_grad=False).requires_grad
    plain = torch.ones(2)
    assert torch.asarray(plain) is plain
    assert torch.asarray(plain, copy=True) is not plain
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        torch.asarray(torch.ones(2, dtype=torch.int32), requires_grad=True)


def test_asarray_without_a_copy_is_refused_where_it_needs_one():
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Double'."):
        torch.asarray(torch.ones(2), dtype=torch.float64, copy=False)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        torch.asarray([1, 2], copy=False)
    array = np.ones(2)
    t = torch.asarray(array, copy=False)
    array[0] = 3
    assert t[0].item() == 3


def test_new_of_a_size_is_an_empty_tensor_of_it(device):
    x = torch.tensor([], device=device)
    assert x.new(torch.Size([3, 4])).shape == (3, 4)
    assert x.new(torch.ones(2, 5).shape).shape == (2, 5)
    assert x.new([3, 4]).tolist() == [3, 4]
    assert x.new(3, 4).shape == (3, 4)


def test_complex_numbers_of_make_tensor_are_no_view():
    assert not torch.testing.make_tensor((2,), dtype=torch.complex64, device="cpu")._is_view()


def test_complex_of_many_elements_is_a_value_error():
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        complex(torch.tensor([1.0, 2.0]))


def test_a_meta_number_is_formatted_as_a_tensor():
    assert format(torch.tensor(1.0, device="meta")).startswith("tensor(")


def test_storage_of_another_dtype_is_refused():
    with pytest.raises(
        RuntimeError, match="Expected a Storage of type float or an UntypedStorage, but got type Double"
    ):
        torch.ones(2).set_(torch.ones(2, dtype=torch.float64).storage())
    with pytest.raises(RuntimeError, match="Could not set tensor of type double to a tensor of type float"):
        torch.ones(2).set_(torch.ones(2, dtype=torch.float64))


def test_truth_values_of_other_bytes_are_viewed():
    x = torch.tensor([2, 0], dtype=torch.uint8)
    t = x.view(torch.bool)
    x[1] = 3
    assert t.tolist() == [True, True]


def test_one_element_tensors_in_a_list_are_numbers():
    assert torch.tensor([torch.tensor([1.0]), torch.tensor(2)]).tolist() == [1, 2]
    assert torch.tensor([2, torch.tensor([[1.5]])]).tolist() == [2, 1.5]
    assert torch.tensor([[1, 2], torch.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]
