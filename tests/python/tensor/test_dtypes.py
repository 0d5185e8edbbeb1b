"""Type promotion, and dtypes of results."""

import math

import pytest

import pytpu as torch
from pytpu.nn import functional as F


def test_numbers_out_of_range_become_the_least_integer():
    x = torch.tensor([1e20, -1e20, math.nan, 3.9])
    least = -(2**63)
    assert x.long().tolist() == [least, least, least, 3]
    assert x.int().tolist() == [-(2**31)] * 3 + [3]
    assert x.char().tolist() == [0, 0, 0, 3]


def test_dtypes_of_sums_and_ranges_are_those_of_pytorch(device):
    small = torch.ones(3, 2, dtype=torch.uint8, device=device)
    assert torch.einsum("ij->i", small).dtype == torch.int64
    assert torch.einsum("ij,j->i", small, small[0]).dtype == torch.uint8
    stretched = torch.tensordot(small.view(1, 3, 2), small.view(3, 2, 1), dims=([0, 1], [1, 0]))
    assert stretched.dtype == torch.uint8 and stretched.tolist() == [[6], [6]]
    flags = small.bool()
    assert flags[0, 0].sum_to_size(()).dtype == torch.int64
    assert flags.sum_to_size(3, 2).dtype == torch.bool and flags.sum_to_size(1, 2).tolist() == [[3, 3]]
    assert torch.addr(flags, flags[:, 0], flags[0], beta=2, alpha=3).dtype == torch.bool
    places = torch.unravel_index(torch.tensor([3, 8], dtype=torch.uint8, device=device), (4, 5))
    assert [p.tolist() for p in places] == [[0, 1], [3, 3]] and places[0].dtype == torch.int64
    # Bounds and steps are truncated to integers, but the number of elements is computed before that.
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64):
        assert torch.arange(0.5, 9, 1.7, dtype=dtype, device=device).tolist() == [0, 1, 2, 3, 4]


def test_result_type_ranks_tensors_over_numbers():
    half, number = torch.ones(2, dtype=torch.float16), torch.tensor(1.0, dtype=torch.float64)
    assert torch.result_type(half, number) is torch.float16
    assert torch.result_type(torch.ones(2, dtype=torch.int8), 1) is torch.int8
    assert torch.result_type(torch.ones(2, dtype=torch.int8), 1.5) is torch.float32
    assert torch.result_type(1, 2.5) is torch.float32


def test_bytes_answer_all_and_any_in_bytes(device):
    x = torch.tensor([[1, 0], [2, 3]], dtype=torch.uint8, device=device)
    assert x.all().dtype is torch.uint8 and x.any(1).dtype is torch.uint8
    assert x.all(1).tolist() == [0, 1]


def test_types_of_python_as_dtypes_have_64_bits(device):
    assert torch.zeros(2, dtype=float, device=device).dtype == torch.float64
    assert torch.linspace(0, 1, 3, dtype=float, device=device).dtype == torch.float64
    assert torch.ones(2, device=device).to(float).dtype == torch.float64
    assert torch.ones(2, dtype=complex).dtype == torch.complex128
    assert torch.nn.Linear(2, 2, dtype=float).weight.dtype == torch.float64
    assert torch.tensor([1, 2], dtype=int).dtype == torch.int64 and torch.tensor([1, 0], dtype=bool).dtype == torch.bool


def test_bounds_without_dimensions_promote(device):
    one = lambda v, d: torch.tensor(v, dtype=d, device=device)
    assert torch.clamp_min(one(True, torch.bool), one(1.5, torch.float64)).dtype == torch.float64
    assert torch.clamp_min(one(1, torch.int32), one(5, torch.int64)).dtype == torch.int64
    assert torch.clamp_max(one(1, torch.int32), one(2.0, torch.float32)).dtype == torch.float32
    assert torch.clamp(one(True, torch.bool), one(1.5, torch.float64)).item() == 1.5
    assert torch.clamp_min(torch.ones(2, dtype=torch.int32, device=device), one(5, torch.int64)).dtype == torch.int32
    assert torch.clamp(torch.ones(2, device=device), 0, 0.5).tolist() == [0.5, 0.5]


def test_similarity_promotes(device):
    a, b = torch.tensor([3, 4], dtype=torch.int8, device=device), torch.tensor([3.0, 4.0], device=device)
    assert abs(F.cosine_similarity(a, b, dim=-1).item() - 1) < 1e-6
    with pytest.raises(RuntimeError, match="expected common dtype to be floating point, yet common dtype is Char"):
        F.cosine_similarity(a, a, dim=-1)
