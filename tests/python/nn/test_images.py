"""Images resized, sampled, taken apart and put together; bags of embeddings; margins and distances."""

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F

# What PyTorch 2.15 gives.
BILINEAR_BYTES = [[24, 35, 47, 58], [99, 110, 122, 133], [174, 185, 197, 208]]
BICUBIC_BYTES = [[19, 31, 43, 55], [98, 110, 122, 134], [177, 189, 201, 213]]
SLOPES = [-0.11364328116178513, -0.21469609439373016, -0.40916597843170166, -0.1699708104133606]


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


def test_unfolding_and_folding_count_overlaps(device, close):
    x = torch.randn(2, 3, 6, 5, device=device, requires_grad=True)
    columns = nn.Unfold((3, 2), padding=1, stride=(1, 2))(x)
    assert columns.shape == (2, 18, 18)
    back = nn.Fold((6, 5), (3, 2), padding=1, stride=(1, 2))(columns)
    counts = F.fold(
        F.unfold(torch.ones_like(x), (3, 2), padding=1, stride=(1, 2)), (6, 5), (3, 2), padding=1, stride=(1, 2)
    )
    close(back, (x * counts).detach().cpu().numpy())
    back.sum().backward()
    close(x.grad, counts.cpu().numpy())
    with pytest.raises(RuntimeError, match=r"calculated shape of the array of sliding blocks as \(0, 5\)"):
        F.unfold(x, (7, 1))


def test_shuffles_undo_each_other(device):
    x = torch.randn(2, 8, 3, 4, device=device)
    assert torch.equal(torch.pixel_unshuffle(nn.PixelShuffle(2)(x), 2), x)
    assert torch.equal(nn.ChannelShuffle(4)(nn.ChannelShuffle(2)(x)), x)
    with pytest.raises(RuntimeError, match=r"input.size\(-3\)=8 is not divisible by 9"):
        torch.pixel_shuffle(x, 3)


def test_maxima_go_back_where_they_were(device):
    x = torch.arange(16.0, device=device).reshape(1, 1, 4, 4)
    pooled, at = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(pooled, at, 2)
    assert back.sum() == pooled.sum() and back[0, 0, 3, 3] == 15
    with pytest.raises(RuntimeError, match="Found an invalid max index"):
        torch.nn.functional.max_unpool2d(pooled, at + 100, 2).cpu()


def test_fractional_pools_take_maxima_of_their_windows(device, close):
    x = torch.randn(2, 3, 7, 6, device=device)
    y, at = F.fractional_max_pool2d(x, 2, output_size=(4, 3), return_indices=True)
    assert y.shape == (2, 3, 4, 3)
    close(y, torch.gather(x.flatten(2), 2, at.flatten(2)).reshape(y.shape).cpu().numpy())
    with pytest.raises(RuntimeError, match="pool height 7 too large relative to input height 7"):
        F.fractional_max_pool2d(x, (7, 2), output_size=(2, 2))


def test_bags_of_embeddings(device, close):
    w = torch.arange(12.0, device=device).reshape(4, 3).requires_grad_()
    index, offsets = torch.tensor([0, 1, 3, 3], device=device), torch.tensor([0, 2, 2], device=device)
    table = w.detach().cpu().numpy()
    rows = [table[[0, 1]], table[:0], table[[3, 3]]]
    close(F.embedding_bag(index, w, offsets, mode="sum"), [r.sum(0) for r in rows])
    close(F.embedding_bag(index, w, offsets), [r.mean(0) if len(r) else np.zeros(3) for r in rows])
    F.embedding_bag(index, w, offsets, mode="max").sum().backward()
    close(w.grad, [[0, 0, 0], [1, 1, 1], [0, 0, 0], [1, 1, 1]])
    layer = nn.EmbeddingBag(4, 3, mode="sum", padding_idx=0).to(device)
    assert not layer(index[:1].reshape(1, 1)).any()
    with pytest.raises(RuntimeError, match=r"offsets\[0\] has to be 0"):
        F.embedding_bag(index, w, offsets + 1).cpu()


def test_long_rows_are_scaled_to_max_norm(device, close):
    w = torch.full((3, 4), 2.0, device=device)
    F.embedding(torch.tensor([2, 0, 2], device=device), w, max_norm=1.0)
    close(w, [[0.5] * 4, [2.0] * 4, [0.5] * 4])


def test_margin_losses(device, close):
    x = torch.tensor([[0.1, 0.2, 0.4, 0.8]], device=device)
    close(F.multi_margin_loss(x, torch.tensor([3], device=device)), 0.325)
    close(F.multilabel_margin_loss(x, torch.tensor([[3, 0, -1, 1]], device=device)), 0.85)
    with pytest.raises(RuntimeError, match="target out of range"):
        F.multi_margin_loss(x, torch.tensor([4], device=device)).cpu()


def test_distances_of_equal_rows_have_no_gradient(device, close):
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], device=device, requires_grad=True)
    d = torch.cdist(x, x.detach())
    close(d, [[0, 5], [5, 0]])
    d.sum().backward()
    close(x.grad, [[-0.6, -0.8], [0.6, 0.8]])
    close(torch.pdist(x), [5])
    with pytest.raises(ValueError, match="fast is not a valid value for compute_mode"):
        torch.cdist(x, x, compute_mode="fast")


def test_random_slopes_follow_the_stream():
    torch.manual_seed(3)
    assert F.rrelu(-torch.ones(4), 0.1, 0.5, True).tolist() == pytest.approx(SLOPES, abs=1e-7)


def test_in_place_forms_are_functions_too():
    x = torch.tensor([-2.0, 0.5, 2.0])
    assert torch.clamp_(x, -1, 1) is x and x.tolist() == [-1, 0.5, 1]
    assert torch.threshold_(x, 0.6, 0).tolist() == [0, 0, 1]
    assert torch.fill_(x, 3).tolist() == [3, 3, 3] and torch.zero_(x).tolist() == [0, 0, 0]
    assert not hasattr(torch, "add_")
    square = torch.zeros(5, 2).fill_diagonal_(1, wrap=True)
    assert square.tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]


def test_operators_by_namespace_and_overload():
    x = torch.tensor([1.0, -2.0])
    assert torch.ops.aten.add.Tensor(x, x).tolist() == [2, -4]
    assert torch.ops.aten.relu.default(x).tolist() == [1, 0]
    assert "Tensor" in torch.ops.aten.add.overloads()
    assert str(torch.ops.aten.add.Tensor) == "aten.add.Tensor"
    with pytest.raises(AttributeError, match="has no overload name 'Other'"):
        torch.ops.aten.add.Other
    with pytest.raises(AttributeError, match="no attribute 'no_such_op'"):
        torch.ops.aten.no_such_op
