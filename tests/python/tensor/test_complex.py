"""Complex tensors in Python: numbers, NumPy, views of parts, attributes, warnings, Fourier transforms."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import pytpu as torch


def test_numbers_lists_and_dtypes():
    x = torch.tensor([1, 2j])
    assert x.dtype is torch.complex64 is torch.cfloat and torch.cdouble is torch.complex128
    assert x.tolist() == [1 + 0j, 2j] and x[1].item() == 2j and complex(x[1]) == 2j and bool(x[1])
    assert (x * 1j).tolist() == [1j, -2 + 0j] and (1 - x).tolist() == [0j, 1 - 2j]
    assert (torch.ones(1, dtype=torch.float64) * 1j).dtype is torch.complex128
    assert torch.full((2,), 1 + 2j).tolist() == [1 + 2j] * 2
    assert torch.tensor(np.complex64(1 + 2j)).item() == 1 + 2j
    assert x.is_complex() and torch.complex64.is_complex and not torch.float32.is_complex
    assert torch.complex64.to_real() is torch.float32 and torch.float64.to_complex() is torch.complex128
    assert torch.finfo(torch.complex64).eps == torch.finfo(torch.float32).eps
    assert torch.zeros(2, dtype=complex).dtype is torch.complex128
    assert float(torch.tensor(2 + 0j)) == 2.0 and int(torch.tensor(2 + 0j)) == 2
    for f, kind in ((float, "double"), (int, "int64_t")):
        with pytest.raises(RuntimeError, match=f"value cannot be converted to type {kind} without overflow"):
            f(x[1])
    with pytest.raises(TypeError, match="must be real number, not complex"):
        torch.tensor([1j], dtype=torch.float32)
    with pytest.raises(TypeError, match="'<' not supported"):
        torch.nn.functional.dropout(x, 1j)


def test_numpy_shares_memory_both_ways():
    a = np.array([1 + 2j, 3], dtype=np.complex128)
    x = torch.from_numpy(a)
    x.imag.mul_(2)
    assert a.tolist() == [1 + 4j, 3 + 0j] and x.dtype is torch.complex128
    y = torch.tensor([1j])
    y.numpy()[0] = 5
    assert y.item() == 5
    with pytest.raises(RuntimeError, match="conjugate bit set. Use tensor.resolve_conj"):
        y.conj().numpy()
    with pytest.raises(RuntimeError, match="negative bit set. Use tensor.resolve_neg"):
        y.conj().imag.numpy()
    assert y.conj().resolve_conj().numpy().tolist() == [5]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_parts_are_attributes_that_can_be_set(device):
    x = torch.tensor([1 + 2j, 3 - 4j], device=device)
    x.real = torch.tensor([5.0, 6.0], device=device)
    x.imag = 1
    assert x.tolist() == [5 + 1j, 6 + 1j]
    assert x.real.tolist() == [5, 6] and torch.imag(x).tolist() == [1, 1]
    r = torch.ones(2, device=device)
    assert r.real is not None and r.conj().tolist() == [1, 1]
    for f in (lambda: r.imag, lambda: torch.imag(r), lambda: setattr(r, "imag", 1)):
        with pytest.raises(TypeError, match="imag is not implemented for tensors with non-complex dtypes."):
            f()
    m = torch.tensor([[1 + 1j, 2], [3, 4 - 1j]], device=device)
    assert m.H.tolist() == m.mH.tolist() == m.adjoint().tolist() == [[1 - 1j, 3], [2, 4 + 1j]]
    assert m.H.is_conj() and torch.is_conj(m.H) and not torch.is_neg(m.H)
    with pytest.raises(RuntimeError, match="tensor.H is only supported on matrices"):
        x.H


def test_copies_keep_values():
    x = torch.tensor([1 + 2j, 3 - 4j])
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.deepcopy(x.conj()).conj()):
        assert y.tolist() == x.tolist() and y.dtype is x.dtype


def test_files_hold_complex_tensors(tmp_path):
    x = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex128)
    torch.save({"x": x, "conj": x.conj(), "imag": x.imag}, tmp_path / "z.pt")
    got = torch.load(tmp_path / "z.pt")
    assert (
        got["x"].tolist() == x.tolist()
        and got["conj"].tolist() == x.conj().tolist()
        and got["imag"].tolist() == [2, -4]
    )


def test_a_cast_that_drops_imaginary_parts_warns_once():
    script = (
        "import warnings, pytpu as torch\n"
        "warnings.simplefilter('always')\n"
        "x = torch.tensor([1 + 2j])\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    x.bool(); x.to(torch.complex128); x.float(); x.long(); torch.ones(1).copy_(x)\n"
        "print([(w.category.__name__, str(w.message)) for w in seen])\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[('UserWarning', 'Casting complex values to real discards the imaginary part')]"


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_random_numbers_are_pairs_of_the_real_stream(dtype):
    torch.manual_seed(3)
    x = torch.randn(20, dtype=dtype)
    torch.manual_seed(3)
    pairs = torch.randn(20, 2, dtype=dtype.to_real()) / 2**0.5
    assert torch.allclose(torch.view_as_real(x), pairs)
    torch.manual_seed(3)
    u = torch.rand(3, dtype=dtype)
    torch.manual_seed(3)
    assert torch.view_as_real(u).tolist() == torch.rand(3, 2, dtype=dtype.to_real()).tolist()


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_fourier_transforms_equal_numpy(device):
    rng = np.random.default_rng(0)
    real = rng.standard_normal((3, 7))
    z = real + 1j * rng.standard_normal((3, 7))
    for norm in (None, "ortho", "forward"):
        for name, a, kw in (
            ("fft", z, {}),
            ("fft", z, {"n": 5}),
            ("ifft", z, {"n": 9}),
            ("rfft", real, {}),
            ("irfft", z, {"n": 10}),
            ("irfft", z, {"n": 11}),
            ("hfft", z, {}),
            ("ihfft", real, {"n": 6}),
            ("fft2", z, {}),
            ("ifft2", z, {"s": (4, 6)}),
            ("rfft2", real, {}),
            ("irfft2", z, {"s": (3, 8)}),
            ("fftn", z, {}),
            ("rfftn", real, {}),
            ("irfftn", z, {}),
        ):
            want = getattr(np.fft, name)(a, norm=norm, **kw)
            got = getattr(torch.fft, name)(torch.tensor(a).to(device), norm=norm, **kw).cpu().resolve_conj().numpy()
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9, err_msg=f"{name} {norm} {kw}")
    assert torch.fft.fftfreq(5).tolist() == pytest.approx(np.fft.fftfreq(5).tolist())
    assert torch.fft.rfftfreq(6, 0.5).tolist() == pytest.approx(np.fft.rfftfreq(6, 0.5).tolist())
    x = torch.arange(5, device=device)
    assert (
        torch.fft.fftshift(x).tolist() == [3, 4, 0, 1, 2]
        and torch.fft.ifftshift(torch.fft.fftshift(x)).tolist() == x.tolist()
    )


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_signal_comes_back_from_its_short_time_transform(device):
    torch.manual_seed(0)
    x = torch.randn(2, 40).to(device)
    window = (0.5 - 0.5 * torch.cos(torch.arange(8) * (2 * torch.pi / 8))).to(device)
    s = torch.stft(x, 8, 2, window=window, return_complex=True)
    assert s.shape == (2, 5, 21)
    assert torch.allclose(torch.istft(s, 8, 2, window=window).cpu(), x.cpu(), atol=1e-5)
    with pytest.raises(RuntimeError, match="requires the return_complex parameter"):
        torch.stft(x, 8, 2)
    with pytest.raises(RuntimeError, match="Invalid normalization mode"):
        torch.fft.fft(x, norm="x")
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        torch.fft.fft(x, 0)


def test_distances_and_spreads_of_complex_numbers_are_real(device):
    x = torch.tensor([[3 + 4j, 0], [0, 0]], device=device)
    for p, want in ((2.0, [5.0, 0.0]), (1.0, [5.0, 0.0]), (float("inf"), [5.0, 0.0])):
        distance = torch.nn.functional.pairwise_distance(x, torch.zeros_like(x), p=p, eps=0.0)
        assert distance.dtype == torch.float32 and np.allclose(distance.tolist(), want)
    z = torch.tensor([1 + 1j, 2, 3j], device=device)
    assert np.isclose(torch.masked.var(z, dim=0).item(), 10 / 3)
    kept = torch.tensor([True, False, True], device=device)
    assert np.isclose(torch.masked.logsumexp(z, dim=0, mask=kept).item(), np.log(np.exp(1 + 1j) + np.exp(3j)))


X, M, B = torch.ones(2), torch.ones(2, 2), torch.ones(2, 2, 2)


def test_products_of_one_complex_operand_are_complex():
    assert torch.addr(M, X * (1 + 2j), X).dtype == torch.complex64
    assert torch.addr(M.int(), X, X).dtype == torch.float32
