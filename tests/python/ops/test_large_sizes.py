"""Sizes and numbers near the limits of 64 bits, memory that is not aligned, and long sums of products."""

import numpy as np
import pytest

import pytpu as torch
from pytpu.nn import functional as F

MOST = 2**63 - 1


@pytest.mark.parametrize(
    "sizes", [[2, 4, 2**29, 2**29], [2**40, 2**40], [2**62]], ids=["four sizes", "two sizes", "one size"]
)
def test_sizes_whose_bytes_overflow_raise_a_plain_runtime_error(device, sizes):
    text = r"Storage size calculation overflowed with sizes=\[" + ", ".join(map(str, sizes)) + r"\]"
    for make in (torch.empty, torch.zeros, torch.ones):
        with pytest.raises(RuntimeError, match=text) as raised:
            make(sizes, dtype=torch.float64, device=device)
        assert not isinstance(raised.value, torch.OutOfMemoryError)


def test_sizes_of_a_split_whose_sum_overflows_raise():
    x = torch.arange(4.0)
    for split in (torch.split_with_sizes, torch.split_with_sizes_copy, torch.split):
        with pytest.raises(RuntimeError, match="expects split_sizes to sum exactly to 4"):
            split(x, [MOST, MOST])
        with pytest.raises(RuntimeError, match="expects split_sizes to sum exactly to 4"):
            split(x, [MOST, MOST, 6])


def test_a_huge_length_or_part_is_compared_without_overflow():
    x = torch.arange(4.0)
    for narrow in (torch.narrow, torch.narrow_copy):
        for start in (2, -2):
            with pytest.raises(RuntimeError, match=rf"start \(2\) \+ length \({MOST}\) exceeds dimension size \(4\)"):
                narrow(x, 0, start, MOST)
    assert [part.tolist() for part in torch.split(x, MOST)] == [[0, 1, 2, 3]]
    assert [part.tolist() for part in torch.chunk(x, 2**62)] == [[0], [1], [2], [3]]


@pytest.mark.parametrize("numbers", [(0, 1e19), (0, 1e308, 1e-300), (-(2**63), MOST)])
def test_more_numbers_than_a_size_can_count_raise(device, numbers):
    with pytest.raises(RuntimeError, match="invalid size, possible overflow"):
        torch.arange(*numbers, device=device)
    with pytest.warns(UserWarning, match="torch.range is deprecated"), pytest.raises(RuntimeError):
        torch.range(*numbers, device=device)


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64], ids=str)
def test_range_refuses_dtypes_that_have_no_order(device, dtype):
    with pytest.warns(UserWarning), pytest.raises(NotImplementedError, match='"range_cpu" not implemented for'):
        torch.range(0, 1, dtype=dtype, device=device)


def test_strides_that_reach_the_last_address_raise():
    for sizes, strides in (([2], [MOST]), ([2, 2], [MOST - 1, 1])):
        with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
            torch.empty_strided(sizes, strides)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64], ids=str)
def test_memory_that_is_not_aligned_is_seen_as_a_wider_dtype_by_a_copy(dtype):
    values = np.arange(8, dtype=np.float32)
    memory = np.zeros(33, np.uint8)
    start = 1 if memory.ctypes.data % 2 == 0 else 0
    memory[start : start + 32] = values.view(np.uint8)
    x = torch.from_numpy(memory[start : start + 32])
    with pytest.warns(UserWarning, match="not aligned"):
        seen = x.view(dtype)
    name = str(dtype).removeprefix("torch.")
    np.testing.assert_array_equal(seen.numpy(), values.view(name))
    np.testing.assert_array_equal((seen + seen).numpy(), values.view(name) * 2)


def test_aligned_memory_is_seen_as_a_wider_dtype_without_a_copy():
    x = torch.zeros(16, dtype=torch.uint8)
    x.view(torch.float32).fill_(1)
    assert x.view(torch.float32).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("n", [1000, 262_144])
def test_a_long_product_of_equal_numbers_is_exact_to_float32(device, n):
    x = torch.full((n,), 0.7, device=device)
    want = n * float(np.float32(0.7)) ** 2
    strided = torch.full((n, 2), 0.7, device=device)[:, 0]
    rows = torch.full((n, 3), 0.7, device=device)
    products = {
        "dot": torch.dot(x, x), "vdot": torch.vdot(x, x), "inner": torch.inner(x, x), "matmul": x @ x,
        "strided": torch.dot(strided, strided), "column": x.unsqueeze(0).mm(x.unsqueeze(1)), "rows": x @ rows,
        "turned": rows.T @ x,
    }  # fmt: skip
    for name, product in products.items():
        np.testing.assert_allclose(product.cpu().numpy().ravel(), want, rtol=2e-6, err_msg=name)


def test_lcm_of_the_smallest_number_ends_with_a_number(device):
    for other in (5, 3, -1, -(2**63)):
        a, b = (torch.tensor([n], device=device) for n in (-(2**63), other))
        assert torch.lcm(a, b).item() == -(2**63) or other in (5, 3)
        a.lcm_(b)


def test_values_with_too_many_dimensions_are_refused_for_empty_indices():
    for accumulate in (False, True):
        with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
            torch.zeros(2, 3).index_put_([], torch.ones(3, 3, 3, 3), accumulate=accumulate)


def test_systems_of_equations_on_two_devices_are_refused():
    a, b = torch.eye(2, device="tpu"), torch.ones(2, 1)
    for solve in (torch.linalg.solve, lambda a, b: torch.linalg.solve_triangular(a, b, upper=True)):
        with pytest.raises(RuntimeError, match="same device"):
            solve(a, b)


REFUSED = {
    "as_strided": lambda z: z(4).as_strided([3], [2**61]),
    "as_strided offset": lambda z: z(4).as_strided([3], [1], 2**62),
    "expand": lambda z: z(1, 1).expand(2**32, 2**32),
    "expanded and copied": lambda z: z(1).expand(2**61).contiguous(),
    "expanded and added": lambda z: z(1).expand(2**61) + 1,
    "linspace": lambda z: torch.linspace(0, 1, 2**40, device=z(1).device),
    "linspace, most": lambda z: torch.linspace(0, 1, MOST, device=z(1).device),
    "logspace": lambda z: torch.logspace(0, 1, 2**40, device=z(1).device),
    "arange": lambda z: torch.arange(MOST, device=z(1).device),
    "randperm": lambda z: torch.randperm(MOST, device=z(1).device),
    "randn": lambda z: torch.randn(2**61, device=z(1).device),
    "zeros": lambda z: z(2**40, 2**40),
    "new_zeros": lambda z: z(2, 2).new_zeros(2**40, 2**30),
    "eye": lambda z: torch.eye(2**40, device=z(1).device),
    "tril_indices": lambda z: torch.tril_indices(2**40, 2**40, device=z(1).device),
    "triu_indices": lambda z: torch.triu_indices(2**33, 2**33, device=z(1).device),
    "repeat": lambda z: z(2).repeat(2**62),
    "repeat, two": lambda z: z(2).repeat(2**40, 2**40),
    "repeat, many": lambda z: z(1, 1, 1, 1, 2).repeat(1, 2**40, 1, 1, 2**40),
    "repeat_interleave": lambda z: z(2).repeat_interleave(2**62),
    "repeat_interleave by": lambda z: z(2).repeat_interleave(torch.tensor([2**62, 2**62])),
    "cat": lambda z: torch.cat([z(1).expand(2**62)] * 4),
    "outer": lambda z: torch.outer(z(1).expand(2**40), z(1).expand(2**40)),
    "conv padding": lambda z: F.conv2d(z(1, 1, 4, 4), z(1, 1, 3, 3), padding=2**62),
    "conv padding, large": lambda z: F.conv2d(z(1, 1, 4, 4), z(1, 1, 3, 3), padding=10**9),
    "conv dilation": lambda z: F.conv2d(z(1, 1, 4, 4), z(1, 1, 3, 3), dilation=2**62),
    "conv_transpose": lambda z: F.conv_transpose2d(z(1, 1, 4, 4), z(1, 1, 3, 3), stride=2**62),
    "interpolate": lambda z: F.interpolate(z(1, 1, 4, 4), size=(2**40, 2**40)),
    "adaptive pool": lambda z: F.adaptive_avg_pool2d(z(1, 1, 4, 4), (2**40, 2**40)),
    "pad": lambda z: F.pad(z(4), (2**62, 2**62)),
    "combinations": lambda z: torch.combinations(z(60), 30),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_sizes_are_refused(device, case):
    def zeros(*size):
        return torch.zeros(*size, device=device)

    with pytest.raises(RuntimeError):
        REFUSED[case](zeros)
    assert (zeros(2) + 1).tolist() == [1, 1]


def test_large_steps_and_views_are_accepted(device):
    x = torch.arange(5.0, device=device)
    assert x[:: 2**63 - 1].tolist() == [0]
    assert x.unfold(0, 2, 2**62).tolist() == [[0, 1]]
    assert x[:1].expand(2**61).shape == (2**61,)
    y = x.clone().requires_grad_()
    y[1 :: 2**62].sum().backward()
    assert y.grad.tolist() == [0, 1, 0, 0, 0]
