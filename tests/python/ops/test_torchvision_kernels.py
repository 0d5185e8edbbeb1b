"""Kernels of torchvision's operators, with PyTorch's values."""

import pytest

import pytpu as torch
from pytpu._torchvision_kernels import nms, roi_align

BOXES = [[0.0, 0, 2, 2], [0, 0, 2, 2.1], [5, 5, 6, 6], [5.2, 5.2, 6, 6], [1, 1, 3, 3]]


def test_boxes_that_overlap_are_dropped(device):
    boxes, scores = torch.tensor(BOXES, device=device), torch.tensor([0.9, 0.8, 0.95, 0.7, 0.3], device=device)
    found = nms(boxes, scores, 0.5)
    assert found.tolist() == [2, 0, 4] and found.dtype == torch.int64 and found.device.type == device
    assert nms(boxes.double(), scores.double(), 0.7).tolist() == [2, 0, 3, 4]
    assert nms(boxes[:0], scores[:0], 0.5).tolist() == []


def test_boxes_at_the_edges():
    equal = torch.tensor([[0.0, 0, 2, 2]] * 3)
    assert nms(equal, torch.tensor([0.5, 0.5, 0.5]), 0.5).tolist() == [0]
    assert nms(equal, torch.tensor([0.5, float("nan"), 0.5]), 0.5).tolist() == [1]
    # Empty boxes overlap by 0 / 0, which drops none.
    assert nms(torch.zeros(3, 4), torch.tensor([0.5, 0.6, 0.5]), 0.5).tolist() == [1, 0, 2]


def test_wrong_boxes_raise():
    boxes, scores = torch.tensor(BOXES), torch.ones(5)
    for arguments, text in (
        ((boxes[0], scores), "boxes should be a 2d tensor, got 1D"),
        ((boxes[:, :3], scores), "boxes should have 4 elements in dimension 1, got 3"),
        ((boxes, scores[None]), "scores should be a 1d tensor, got 2D"),
        ((boxes, scores[:2]), "same number of elements in dimension 0, got 5 and 2"),
        ((boxes.double(), scores), "dets should have the same type as scores"),
        ((boxes.half(), scores.half()), "\"nms_kernel\" not implemented for 'Half'"),
    ):
        with pytest.raises(RuntimeError, match=text):
            nms(*arguments, 0.5)


# Sums of the result, of its square, and of the squared gradient, by torchvision 0.29.2.
RECORDED = {
    (-1, False): [25.579771, 12.930972, 44.491333],
    (-1, True): [23.629021, 11.105129, 30.659119],
    (2, False): [25.476870, 12.824471, 42.145420],
    (3, True): [23.402542, 10.956562, 30.736916],
}


@pytest.mark.parametrize("ratio", [-1, 2])
def test_a_region_of_a_ramp_has_its_own_mean(device, ratio):
    ramp = torch.arange(64.0, device=device).reshape(1, 1, 8, 8).requires_grad_()
    rois = torch.tensor([[0.0, 1, 1, 5, 5]], device=device)
    found = roi_align(ramp, rois, 1.0, 2, 2, ratio, False)
    # The centre of a bin is the value of a linear function.
    torch.testing.assert_close(found.detach().cpu(), torch.tensor([[[[18.0, 20], [34, 36]]]]))
    found.sum().backward()
    torch.testing.assert_close(ramp.grad.sum().cpu(), torch.tensor(4.0))


def test_samples_outside_of_the_image_are_zero(device):
    ones = torch.ones(1, 2, 4, 4, device=device)
    rois = torch.tensor([[0.0, -8, 0, -4, 4], [0, 0, 0, 4, 4], [0, 6, 6, 9, 9]], device=device)
    found = roi_align(ones, rois, 1.0, 1, 1, 2, False)
    assert found.shape == (3, 2, 1, 1) and found.flatten().tolist() == [0, 0, 1, 1, 0, 0]


def test_values_and_gradients_are_those_of_torchvision(device):
    x = ((torch.arange(2 * 3 * 9 * 11) * 37 % 101) / 101.0).reshape(2, 3, 9, 11).to(device).requires_grad_()
    rois = torch.tensor([[0.0, -2, 1, 7.5, 9], [1, 3.3, 2.2, 12, 11], [0, 4, 4, 4.5, 4.2]], device=device)
    for (ratio, aligned), wanted in RECORDED.items():
        x.grad = None
        y = roi_align(x, rois, 0.7, 3, 2, ratio, aligned)
        y.square().sum().backward()
        found = torch.stack([y.detach().sum(), y.detach().square().sum(), x.grad.square().sum()]).cpu()
        torch.testing.assert_close(found, torch.tensor(wanted), rtol=1e-4, atol=1e-4)


def test_wrong_regions_raise():
    x, rois = torch.ones(2, 1, 4, 4), torch.tensor([[7.0, 1, 1, 2, 2]])
    for arguments, text in (
        ((x, rois), r"rois batch index must be in \[0, batch_size\)"),
        ((x, rois[:, :4]), r"rois must have shape as Tensor\[K, 5\]"),
        ((x, rois.double()), "input should have the same type as rois"),
    ):
        with pytest.raises(RuntimeError, match=text):
            roi_align(*arguments, 1.0, 2, 2, 2, False)
    assert roi_align(x, rois[:0], 1.0, 2, 2, 2, False).shape == (0, 1, 2, 2)


def test_autocast_computes_in_float32():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = roi_align(torch.ones(1, 1, 4, 4).bfloat16(), torch.tensor([[0.0, 0, 0, 2, 2]]), 1.0, 1, 1, 2, False)
    assert found.dtype == torch.bfloat16
