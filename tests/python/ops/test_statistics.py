"""Statistics against NumPy: quantiles, modes, covariances, histograms."""

import numpy as np
import pytest

import pytpu as torch

RNG = np.random.default_rng(7)


def array(*sizes):
    return RNG.standard_normal(sizes).astype(np.float32)


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_are_numpys(how, device, close):
    a = array(4, 7)
    q = np.array([0.0, 0.25, 0.6, 1.0], np.float32)
    x = torch.from_numpy(a).to(device)
    got = torch.quantile(x, torch.from_numpy(q).to(device), dim=1, interpolation=how)
    close(got, np.quantile(a, q, axis=1, method=how), rtol=1e-5)
    close(torch.quantile(x, 0.3), np.quantile(a, 0.3), rtol=1e-4)


def test_nanquantile_leaves_nan_out(device, close):
    a = array(3, 6)
    a[0, 2] = a[1, :5] = np.nan
    x = torch.from_numpy(a).to(device)
    close(torch.nanquantile(x, 0.4, dim=1), np.nanquantile(a, 0.4, axis=1), rtol=1e-5)
    assert torch.quantile(x, 0.4, dim=1).isnan().tolist() == [True, True, False]


@pytest.mark.parametrize(
    "q, text", [(2.0, "must be in the range"), (torch.tensor([0.5, -1.0]), "must be in the range")]
)
def test_quantile_refuses_numbers_outside_0_and_1(q, text):
    with pytest.raises(RuntimeError, match=text):
        torch.quantile(torch.ones(3), q)


def test_mode_is_the_smallest_of_the_most_frequent(device):
    x = torch.tensor([[3, 1, 3, 1, 2], [5, 5, 5, 0, 0]], device=device)
    values, indices = torch.mode(x)
    assert values.tolist() == [1, 5] and indices.tolist() == [3, 2]
    assert torch.mode(x, 0, True).values.tolist() == [[3, 1, 3, 0, 0]]


def test_covariances_are_numpys(device, close):
    a = array(3, 6)
    x = torch.from_numpy(a).to(device)
    close(torch.cov(x), np.cov(a), rtol=1e-4)
    close(torch.corrcoef(x), np.corrcoef(a), rtol=1e-4)
    f, w = np.array([1, 2, 1, 3, 0, 2]), RNG.random(6).astype(np.float32)
    got = torch.cov(x, fweights=torch.from_numpy(f).to(device), aweights=torch.from_numpy(w).to(device))
    close(got, np.cov(a, fweights=f, aweights=w), rtol=1e-4)


def test_histograms_are_numpys(device, close):
    a = array(50)
    hist, edges = torch.histogram(torch.from_numpy(a).to(device), 5, range=(-1.0, 2.0))
    want, want_edges = np.histogram(a, 5, range=(-1.0, 2.0))
    close(hist, want)
    close(edges, want_edges)
    points = array(40, 2)
    got = torch.histogramdd(torch.from_numpy(points).to(device), [3, 4], density=True)
    want, want_edges = np.histogramdd(points, [3, 4], density=True)
    close(got.hist, want, rtol=1e-3)
    for e, w in zip(got.bin_edges, want_edges):
        close(e, w)


def test_numerical_gradients_are_numpys(device, close):
    a = array(4, 5)
    x = torch.from_numpy(a).to(device)
    for got, want in zip(torch.gradient(x), np.gradient(a)):
        close(got, want)
    at = np.array([0.0, 0.5, 0.7, 2.0, 2.5], np.float32)
    (got,) = torch.gradient(x, spacing=[torch.from_numpy(at).to(device)], dim=1, edge_order=2)
    close(got, np.gradient(a, at, axis=1, edge_order=2), rtol=1e-3, atol=1e-4)
