"""Sums, and ops that use sums, agree with ``float64`` to 1e-6 on both devices."""

import os
import subprocess
import sys

import numpy as np
import pytest

import pytpu as torch
import pytpu.nn.functional as F

# Constants are the worst case: all roundings go the same way.
CONSTANT = torch.tensor(0.7).double().item()


SHAPES = [
    (2, 4, 16, 16, 16),
    (4, 64, 64, 64),
    (8, 3, 224, 224),
    (1000, 1000),
    (3, 100_000, 7),
    (1009, 1013),
    (500_000,),
]


def off(got, want):
    """Return the largest relative error."""
    got = got.detach().cpu().double().numpy()
    return np.abs((got - want) / want).max()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_sum_over_all_dimensions_is_precise(device, shape):
    x = torch.full(shape, 0.7).to(device)
    assert off(x.sum(), x.numel() * CONSTANT) < 1e-6
    assert off(x.mean(), CONSTANT) < 1e-6
    assert off(x.norm(), (x.numel() * CONSTANT**2) ** 0.5) < 1e-6
    assert off((x * x).sum(), x.numel() * CONSTANT**2) < 1e-6
    assert off(torch.logsumexp(x, list(range(x.dim()))), CONSTANT + np.log(x.numel())) < 1e-6


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (3,), (0, 1), (2, 3), (0, 2, 3), (1, 3), (0, 1, 2, 3)], ids=str)
def test_a_sum_over_some_dimensions_is_precise(device, dims):
    x = torch.full((16, 8, 128, 128), 0.7).to(device)
    count = np.prod([x.shape[d] for d in dims])
    assert off(x.sum(dims), count * CONSTANT) < 1e-6
    assert off(x.mean(dims, keepdim=True), CONSTANT) < 1e-6
    assert off(x.square().sum(dims), count * CONSTANT**2) < 1e-6


def test_a_sum_over_joined_dimensions_is_precise(device):
    x = torch.full((1000, 1000), 0.7).to(device)
    assert off(x.flatten().sum(), 1e6 * CONSTANT) < 1e-6
    assert off((x.flatten() + x.flatten() * 2).sum(), 3e6 * CONSTANT) < 1e-6
    y = torch.full((4, 64, 8, 128), 0.7).to(device)
    assert off(y.view(4, -1).sum(1), 64 * 8 * 128 * CONSTANT) < 1e-6
    assert off(y.view(4, 64, -1).mean((1, 2)), CONSTANT) < 1e-6
    assert y.view(2, 2, 64, 1024).sum((1, 2)).shape == (2, 1024)


@pytest.mark.parametrize("shape", [(4, 64, 64, 64), (8, 3, 224, 224)], ids=str)
def test_losses_of_random_images_are_precise(device, shape):
    x = torch.randn(shape)
    want = x.double().square().mean().item()
    assert off(F.mse_loss(x.to(device), torch.zeros(shape, device=device)), want) < 1e-6
    assert off(x.to(device).square().mean(), want) < 1e-6


@pytest.mark.parametrize("shape", [(4, 64, 64), (32, 224, 224)], ids=str)
def test_cross_entropy_of_images_is_precise(device, shape):
    logits = torch.zeros(shape[0], 2, *shape[1:]).to(device)
    classes = torch.zeros(shape, dtype=torch.long).to(device)
    weight = torch.tensor([0.3, 0.7]).to(device)
    assert off(F.cross_entropy(logits, classes), np.log(2)) < 1e-6
    assert off(F.cross_entropy(logits, classes, weight=weight), np.log(2)) < 1e-6


def test_statistics_of_batch_norm_are_precise(device):
    images, rows = torch.full((16, 8, 128, 128), 0.7).to(device), torch.full((100_000, 4), 0.7).to(device)
    for layer, x in ((torch.nn.BatchNorm2d(8, momentum=1.0), images), (torch.nn.BatchNorm1d(4, momentum=1.0), rows)):
        layer.to(device)(x)
        assert off(layer.running_mean, CONSTANT) < 1e-6


@pytest.mark.parametrize("kernel", [7, 32, 224])
def test_averages_of_large_windows_are_precise(device, kernel):
    x = torch.full((1, 1, 224, 224), 0.7).to(device)
    assert off(F.avg_pool2d(x, kernel), CONSTANT) < 1e-6
    assert off(F.adaptive_avg_pool2d(x, 224 // kernel), CONSTANT) < 1e-6


def test_an_average_pool_of_random_numbers_is_that_of_numpy(device, close):
    x = torch.randn(2, 3, 40, 60)
    want = x.double().numpy().reshape(2, 3, 4, 10, 5, 12).mean((3, 5))
    close(F.avg_pool2d(x.to(device), (10, 12)), want)
    close(F.avg_pool2d(x.to(device), (40, 60)), x.double().numpy().mean((2, 3), keepdims=True))


def test_layer_norm_of_many_elements_is_precise(device):
    x = torch.rand(4, 256, 192, 16)
    want = F.layer_norm(x.double(), (256, 192, 16)).float()
    assert (F.layer_norm(x.to(device), (256, 192, 16)).cpu() - want).abs().max().item() < 1e-5


def test_group_norm_of_many_elements_is_precise(device):
    x = torch.rand(1, 8, 128, 256, 72)
    y = x.numpy().astype(np.float64).reshape(2, -1)
    want = ((y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5)).reshape(x.shape)
    assert np.abs(F.group_norm(x.to(device), 2).cpu().numpy() - want).max() < 1e-5


def test_mean_and_variance_of_many_numbers_are_precise(device):
    x = torch.rand(1 << 22)
    y = x.to(device)
    assert off(y.mean(), x.double().mean().item()) < 1e-6
    assert off(y.var(), x.double().var().item()) < 1e-6
    assert off(y.std(), x.double().std().item()) < 1e-6


def test_the_variance_of_large_numbers_close_together_is_right(device):
    x = torch.tensor([1e6, 1e6 + 1, 1e6 + 2] * 1000)
    assert abs(x.to(device).var().item() - x.double().var().item()) < 1e-2
    assert abs(x.view(3, 1000).to(device).std((0, 1)).item() - x.double().std().item()) < 1e-2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_mean_of_16_bit_floats_does_not_overflow(device, dtype):
    x = torch.full((100_000,), 60000.0, dtype=dtype).to(device)
    assert x.mean().item() == x[0].item()
    assert x.view(100, 1000).mean(1).tolist() == [x[0].item()] * 100
    assert x.mean().dtype == dtype


def test_strict_mode_and_programs_without_kernels_sum_precisely():
    program = (
        "import pytpu as torch\n"
        "x = torch.full((4, 64, 64, 64), 0.7).to('tpu')\n"
        "t = torch.tensor(0.7).double().item()\n"
        "for y, n in ((x.sum(), x.numel()), (x.sum((2, 3)), 4096), (x.sum((0, 2, 3)), 4 * 4096), (x.flatten().sum(), "
        "x.numel())):\n"
        "    assert ((y.cpu().double() / (n * t)) - 1).abs().max().item() < 1e-6\n"
    )
    for setting in ("TORCH_TPU_DEFER_AND_FUSE", "TORCHTPU_XLA_KERNELS"):
        subprocess.run([sys.executable, "-c", program], env={**os.environ, setting: "0"}, check=True)


def test_the_logarithm_of_a_sum_of_exponentials_has_gradients_and_edges(device):
    inf = float("inf")
    x = torch.tensor([0.5, -3.0, 200.0, inf, -inf, inf, 1.0], device=device, requires_grad=True)
    y = torch.tensor([0.25, 4.0, -200.0, 1.0, -inf, inf, -inf], device=device, requires_grad=True)
    z = torch.logaddexp(x, y)
    want = np.logaddexp(x.detach().cpu().numpy(), y.detach().cpu().numpy())
    np.testing.assert_allclose(z.detach().cpu().numpy(), want, rtol=1e-6)
    z[:3].sum().backward()
    share = 1 / (1 + np.exp(-np.array([0.25, -7.0, 400.0])))
    np.testing.assert_allclose(x.grad[:3].cpu().numpy(), share, rtol=1e-6)
    np.testing.assert_allclose(y.grad[:3].cpu().numpy(), 1 - share, rtol=1e-5, atol=1e-9)
