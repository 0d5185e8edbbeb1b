"""Values at the edge of a domain: NaN and infinities as operands, signs of zero, numbers that a dtype cannot hold."""

import math

import numpy as np
import pytest

import pytpu as torch
import pytpu.nn.functional as F

INF, NAN = math.inf, math.nan


def test_the_rows_of_a_grid_that_are_no_coordinates_read_pytorchs_pixels(device):
    image = torch.arange(1.0, 10, device=device).view(1, 1, 3, 3)
    volume = torch.arange(1.0, 28, device=device).view(1, 1, 3, 3, 3)
    grid, place = torch.zeros(1, 1, 1, 2, device=device), torch.zeros(1, 1, 1, 1, 3, device=device)

    def sample(v, padding, corners, mode):
        grid[..., 0] = v
        place[..., 0] = v
        return F.grid_sample(image, grid, mode, padding, corners).item(), F.grid_sample(
            volume, place, mode, padding, corners
        ).item()

    for mode in ("bilinear", "nearest"):
        for corners in (True, False):
            assert sample(NAN, "border", corners, mode) == (4, 15)
            assert sample(INF, "border", corners, mode) == (6, 15)
            assert sample(-INF, "border", corners, mode) == (4, 13)
            for v in (NAN, INF, -INF):
                assert sample(v, "reflection", corners, mode) == (4, 15)
        assert sample(1e30, "reflection", True, mode) == (4, 13)
    plane, row = sample(1e30, "reflection", False, "bilinear")
    # A compiler may round the coordinate once less. Any place of the row is as good then.
    assert plane == 4 and (row == 13.5 if device == "cpu" else 13 <= row <= 15)
    assert sample(NAN, "zeros", True, "nearest") == (0, 0)
    for v in (NAN, INF):
        plane, volume_value = sample(v, "zeros", True, "bilinear")
        assert math.isnan(plane) and volume_value == 0


def test_searches_among_boundaries_with_nan_take_pytorchs_steps(device):
    values = torch.tensor([1.5, 0, 2, NAN, INF, -INF, 1], device=device)
    want = {
        (1.0, 2.0, NAN): [[1, 0, 1, 3, 3, 0, 0], [1, 0, 3, 3, 3, 0, 1]],
        (1.0, NAN, NAN): [[3] * 7, [3] * 7],
        (NAN,): [[1] * 7, [1] * 7],
        (-INF, 1.0, INF): [[2, 1, 2, 3, 2, 0, 1], [2, 1, 2, 3, 3, 1, 2]],
        (1.0, INF, NAN): [[1, 0, 1, 3, 1, 0, 0], [1, 0, 1, 3, 3, 0, 1]],
    }
    for row, results in want.items():
        row = torch.tensor(row, device=device)
        for right, result in zip((False, True), results):
            assert torch.searchsorted(row, values, right=right).tolist() == result
            assert torch.bucketize(values, row, right=right).tolist() == result
    rows = torch.tensor([[1.0, 2, NAN], [0, 1, 2]], device=device)
    assert torch.searchsorted(rows, torch.tensor([[1.5], [1.5]], device=device)).tolist() == [[1], [2]]
    order = torch.tensor([2, 0, 1], device=device)
    shuffled = torch.tensor([2.0, NAN, 1.0], device=device)
    assert torch.searchsorted(shuffled, torch.tensor([1.5, 3], device=device), sorter=order).tolist() == [1, 3]


def test_searches_among_random_floats_agree_with_numpy(device):
    row = torch.rand(1000).sort()[0]
    values = torch.rand(4, 50)
    for right in (False, True):
        got = torch.searchsorted(row.to(device), values.to(device), right=right)
        np.testing.assert_array_equal(got.cpu(), np.searchsorted(row, values, side="right" if right else "left"))
    assert torch.searchsorted(torch.empty(0, device=device), values.to(device)).sum().item() == 0


def test_incomplete_gamma_functions_of_nan(device):
    def both(a, x):
        a, x = torch.tensor([float(a)], device=device), torch.tensor([float(x)], device=device)
        return torch.special.gammainc(a, x).item(), torch.special.gammaincc(a, x).item()

    for a, x in ((0, NAN), (NAN, NAN), (NAN, 1), (1, NAN), (-1, NAN), (0, 0), (INF, INF)):
        assert all(math.isnan(v) for v in both(a, x)), (a, x)
    assert both(NAN, 0) == (0, 1) and both(0, 1) == (1, 0) and both(NAN, INF) == (1, 0) and both(INF, NAN) == (0, 1)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_numbers_that_an_integer_cannot_hold_are_refused(dtype):
    d = getattr(torch, dtype)
    for v in (NAN, INF, -INF, 1e20):
        for make in (torch.tensor, torch.as_tensor):
            with pytest.raises(RuntimeError, match=f"value cannot be converted to type {dtype} without overflow"):
                make([v], dtype=d)
    assert torch.tensor([3.7], dtype=d).tolist() == [3]
    assert torch.tensor([NAN, 0.0], dtype=torch.bool).tolist() == [True, False]
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.tensor([-1.5], dtype=torch.uint8)


WRITES = {
    "pad": lambda x, v: F.pad(x, (0, 1), value=v),
    "constant_pad_nd": lambda x, v: torch.constant_pad_nd(x, (0, 1), v),
    "fill_diagonal_": lambda x, v: x.view(1, 1).fill_diagonal_(v),
    "index_fill": lambda x, v: x.index_fill(0, torch.tensor([0]), v),
    "masked_fill": lambda x, v: x.masked_fill(x > 0, v),
    "fill_": lambda x, v: x.fill_(v),
    "full_like": lambda x, v: torch.full_like(x, v),
    "scatter": lambda x, v: x.scatter(0, torch.tensor([0]), v),
    "threshold": lambda x, v: F.threshold(x, 2, v),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_do_not_wrap_numbers(name):
    for v in (-1.5, 300, 1e20, NAN):
        with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
            WRITES[name](torch.tensor([1], dtype=torch.uint8), v)
    WRITES[name](torch.tensor([1], dtype=torch.uint8), 0.5)


def test_a_product_added_to_integers_stays_an_integer(device):
    i = torch.tensor([5], device=device)
    for value, want in ((0.5, 5), (1.5, 30), (2, 55), (-1, -20), (True, 30)):
        y = torch.addcmul(i, i, i, value=value)
        assert y.dtype == torch.int64 and y.tolist() == [want]
        assert i.clone().addcmul_(i, i, value=value).tolist() == [want]
    assert torch.addcmul(i, i, torch.tensor([2.5], device=device), value=0.5).tolist() == [11.25]
    with pytest.raises(RuntimeError, match="value cannot be converted to type int64_t without overflow"):
        torch.addcmul(i, i, i, value=1j)


def test_factors_of_matrices_with_infinities(device):
    m = torch.tensor([[INF, 0.0], [0.0, 1.0]], dtype=torch.float64, device=device)
    assert [x.item() for x in torch.linalg.slogdet(m)] == [1, INF] and torch.linalg.slogdet(-m)[0].item() == 1
    assert torch.linalg.pinv(m).tolist() == torch.linalg.pinv(m, hermitian=True).tolist() == [[0, 0], [0, 0]]
    assert torch.linalg.cholesky(m).tolist() == [[INF, 0], [0, 1]]
    assert torch.linalg.eigvals(m).isnan().all() and torch.linalg.eigvals(m * NAN).isnan().all()
    with pytest.raises(RuntimeError, match="input tensor should not contain infs or NaNs"):
        torch.linalg.eig(m)[0].cpu()
    with pytest.raises(torch.linalg.LinAlgError, match="leading minor of order 2"):
        torch.linalg.cholesky(torch.tensor([[1.0, INF], [INF, 2.0]], device=device)).cpu()
    z = torch.tensor([[complex(0, INF)]], device=device)
    assert torch.linalg.slogdet(z)[0].item() == 1j
    assert torch.linalg.LinAlgError.__name__ == "_LinAlgError"


def test_activations_keep_the_sign_of_zero(device):
    x = torch.tensor([-0.0, 0.0], device=device)
    for f in (F.elu, F.selu, F.celu):
        assert [math.copysign(1, v) for v in f(x).tolist()] == [-1, 1]


def test_rms_norm_adds_the_epsilon_of_the_dtype():
    z = torch.tensor([1e-3 + 1e-3j, 2e-9j], dtype=torch.complex128)
    y = F.rms_norm(z, [2])
    want = torch.tensor(
        [1.4142135623730951 + 1.5559482362731175e-10j, 1.4142135622175005e-06 + 1.4142135625286902e-06j]
    )
    torch.testing.assert_close(y, want.to(y.dtype), rtol=1e-6, atol=0)


def test_arrays_that_are_not_aligned_are_copied():
    array = np.zeros(17, dtype=np.uint8)[1:].view(np.float32)
    array[:] = [1, 2, 3, 4]
    assert torch.from_numpy(array).tolist() == torch.tensor(array).tolist() == [1, 2, 3, 4]
    assert torch.as_tensor(array.reshape(2, 2).T).tolist() == [[1, 3], [2, 4]]


def test_softmax_of_empty_integers_is_empty():
    for dtype in (torch.int64, torch.bool, torch.complex64):
        x = torch.zeros(0, 3, dtype=dtype)
        for f in (torch.softmax, torch.log_softmax):
            assert f(x, 1).shape == (0, 3) and f(x, 0).dtype == dtype
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.zeros(1, 3, dtype=torch.int64).softmax(1)


def test_unpooled_images_keep_channels_last():
    x = torch.randn(1, 2, 4, 4).to(memory_format=torch.channels_last)
    maxima, places = F.max_pool2d(x, 2, return_indices=True)
    assert F.max_unpool2d(maxima, places, 2).stride() == (32, 1, 8, 2)


def test_fused_adam_corrects_moments_of_doubles_in_their_precision(device):
    results = []
    for options in ({"fused": True}, {"foreach": False}):
        p = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64, device=device))
        optimizer = torch.optim.Adam([p], 0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            p.pow(4).sum().backward()
            optimizer.step()
        results.append(p.detach().cpu())
    torch.testing.assert_close(*results, rtol=1e-13, atol=0)


def test_segments_with_nan_have_the_gradient_of_their_result():
    def gradient(data, reduce):
        x = torch.tensor(data, requires_grad=True)
        torch.segment_reduce(x, reduce, lengths=torch.tensor([2, 2])).sum().backward()
        return x.grad.tolist()

    for reduce in ("max", "min"):
        assert gradient([NAN, NAN, 2, 2], reduce) == [0.5, 0.5, 0.5, 0.5]
    assert gradient([1, NAN, 2, 3], "max") == [0, 1, 0, 1] and gradient([1, NAN, 2, 3], "min") == [0, 1, 1, 0]
    got = gradient([1.0, NAN, 2, 3], "prod")
    assert math.isnan(got[0]) and got[1:] == [1, 3, 2]
    assert gradient([3.0, 0.0, 0.0, 0.0], "prod") == [0, 3, 0, 0]


def test_nan_reaches_the_gradient_of_scattered_extremes(device):
    for reduce in ("amax", "amin"):
        x = torch.tensor([1.0, NAN, 2.0], device=device, requires_grad=True)
        index = torch.tensor([0, 0, 1], device=device)
        torch.zeros(2, device=device).scatter_reduce(0, index, x, reduce, include_self=False).sum().backward()
        assert x.grad[:2].isnan().all() and x.grad[2] == 1


def test_log_sum_exp_of_an_infinity_gives_the_others_no_gradient(device):
    x = torch.tensor([100.0, INF, 1.0], device=device, requires_grad=True)
    x.logsumexp(0).backward()
    assert x.grad[0] == 0 and x.grad[1].isnan() and x.grad[2] == 0


def test_the_gradient_of_a_loss_of_logits_keeps_its_digits(device):
    x = torch.tensor([-30.0], device=device, requires_grad=True)
    F.binary_cross_entropy_with_logits(x, torch.zeros(1, device=device)).backward()
    assert x.grad.item() == pytest.approx(math.exp(-30), rel=1e-4)


def test_systems_of_16_bits_are_refused_by_name():
    for dtype, name in ((torch.float16, "Half"), (torch.bfloat16, "BFloat16")):
        a = torch.eye(2, dtype=dtype)
        with pytest.raises(NotImplementedError, match=f"\"ldl_solve_kernel_cpu\" not implemented for '{name}'"):
            torch.linalg.ldl_solve(a, torch.ones(2, dtype=torch.int32), a)
