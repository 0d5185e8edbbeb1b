"""Interpolation, grid sampling and pixel shuffles."""

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F

# Results of PyTorch 2.15.
BILINEAR_BYTES = [[24, 35, 47, 58], [99, 110, 122, 133], [174, 185, 197, 208]]


BICUBIC_BYTES = [[19, 31, 43, 55], [98, 110, 122, 134], [177, 189, 201, 213]]


def test_bilinear_interpolation_of_two_by_two(device, close):
    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]], device=device)
    want = [[1, 1.25, 1.75, 2], [1.5, 1.75, 2.25, 2.5], [2.5, 2.75, 3.25, 3.5], [3, 3.25, 3.75, 4]]
    close(F.interpolate(x, scale_factor=2, mode="bilinear")[0, 0], want)
    close(nn.Upsample(scale_factor=2, mode="nearest")(x)[0, 0], np.kron([[1, 2], [3, 4]], np.ones((2, 2))))
    close(F.interpolate(x, size=3, mode="bicubic", align_corners=True)[0, 0], [[1, 1.5, 2], [2, 2.5, 3], [3, 3.5, 4]])


def test_bytes_are_resized_in_whole_numbers(device):
    x = (torch.arange(30, device=device) * 8).to(torch.uint8).reshape(1, 1, 5, 6)
    got = F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True)
    assert got.dtype == torch.uint8
    assert got[0, 0].tolist() == BILINEAR_BYTES
    assert F.interpolate(x, size=(3, 4), mode="bicubic", antialias=True)[0, 0].tolist() == BICUBIC_BYTES


def test_interpolation_refuses_what_does_not_fit(device):
    x = torch.ones(1, 2, 4, 4, device=device)
    with pytest.raises(ValueError, match="only one of size or scale_factor should be defined"):
        F.interpolate(x, size=2, scale_factor=2)
    with pytest.raises(
        RuntimeError, match=r"Input and output sizes should be greater than 0, but got input \(H: 4, W: 4\) output"
    ):
        F.interpolate(x, size=(0, 4))
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        F.interpolate(x.int(), size=2, mode="bicubic")
    with pytest.raises(ValueError, match="Lanczos mode requires antialias=True"):
        F.interpolate(x, size=2, mode="lanczos")


def test_an_identity_grid_gives_the_image_back(device, close):
    x = torch.randn(2, 3, 4, 5, device=device)
    theta = torch.tensor([[1.0, 0, 0], [0, 1, 0]], device=device).expand(2, 2, 3)
    for corners in (True, False):
        grid = F.affine_grid(theta, (2, 3, 4, 5), align_corners=corners)
        for mode in ("bilinear", "nearest", "bicubic"):
            close(F.grid_sample(x, grid, mode=mode, align_corners=corners), x.cpu().numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="expected grid to have size 2 in last dimension"):
        F.grid_sample(x, torch.zeros(2, 1, 1, 3, device=device), align_corners=True)


def test_points_outside_read_zeros_the_border_or_a_mirror(device, close):
    x = torch.tensor([[[[1.0, 2.0, 3.0]]]], device=device)
    grid = torch.tensor([[[[-2.0, 0.0], [2.0, 0.0], [float("nan"), 0.0]]]], device=device)
    want = {"zeros": [0, 0], "border": [1, 3], "reflection": [2, 2]}
    for mode, values in want.items():
        got = F.grid_sample(x, grid, mode="nearest", padding_mode=mode, align_corners=True)
        close(got[0, 0, 0, :2], values)


def test_shuffles_undo_each_other(device):
    x = torch.randn(2, 8, 3, 4, device=device)
    assert torch.equal(torch.pixel_unshuffle(nn.PixelShuffle(2)(x), 2), x)
    assert torch.equal(nn.ChannelShuffle(4)(nn.ChannelShuffle(2)(x)), x)
    with pytest.raises(RuntimeError, match=r"input.size\(-3\)=8 is not divisible by 9"):
        torch.pixel_shuffle(x, 3)
