"""`ctc_loss` against a sum over all spellings."""

import itertools
import math

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F


def rand(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def spelled(path, blank):
    """Return the labels of a path: equal neighbours are merged, blanks are removed."""
    return [c for c, before in zip(path, [None, *path]) if c != before and c != blank]


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_loss_sums_over_all_paths(device, close, blank):
    scores = torch.tensor(rand(4, 3, 3), device=device).log_softmax(2)
    one, two = (c for c in range(3) if c != blank)
    labels, steps = [[one, one], [two], []], [4, 3, 2]
    p = scores.exp().cpu().numpy()
    want = []
    for n, (label, length) in enumerate(zip(labels, steps)):
        paths = (path for path in itertools.product(range(3), repeat=length) if spelled(path, blank) == label)
        want.append(-math.log(sum(math.prod(p[t, n, c] for t, c in enumerate(path)) for path in paths)))
    padded = torch.tensor([[one, one], [two, -1], [-1, -1]], device=device)
    line = torch.tensor([one, one, two], device=device)
    for targets in (padded, line):
        for lengths in ((steps, [2, 1, 0]), (torch.tensor(steps), torch.tensor([2, 1, 0]))):
            close(F.ctc_loss(scores, targets, *lengths, blank, "none"), want, rtol=1e-4)
    close(nn.CTCLoss(blank, "sum")(scores, line, steps, [2, 1, 0]), sum(want), rtol=1e-4)
    # Each loss is divided by its number of labels before the mean.
    close(nn.CTCLoss(blank)(scores, line, steps, [2, 1, 0]), (want[0] / 2 + want[1] + want[2]) / 3, rtol=1e-4)
    close(F.ctc_loss(scores[:, 0], padded[0], (4,), (2,), blank, "none"), want[0], rtol=1e-4)


def test_ctc_gradients_equal_differences(device, close):
    scores, targets = rand(6, 2, 4).astype(np.float64), torch.tensor([[1, 1, 3], [2, 3, 0]], device=device)

    def loss(scores):
        return F.ctc_loss(scores.log_softmax(2), targets, (6, 4), (3, 2), reduction="sum")

    x = torch.tensor(scores, device=device, requires_grad=True)
    loss(x).backward()
    want = np.zeros_like(scores)
    for at in np.ndindex(scores.shape):
        d = np.zeros_like(scores)
        d[at] = 1e-5
        up, down = (loss(torch.tensor(s, device=device)).item() for s in (scores + d, scores - d))
        want[at] = (up - down) / 2e-5
    close(x.grad, want, rtol=1e-4, atol=1e-6)
    # PyTorch's gradient of log-probabilities is a difference of two distributions, so it sums to zero.
    logs = torch.tensor(scores, device=device).log_softmax(2).requires_grad_()
    F.ctc_loss(logs, targets, (6, 4), (3, 2), reduction="sum").backward()
    close(logs.grad.sum(2), np.zeros((6, 2)), atol=1e-6)
    close(logs.grad, want, rtol=1e-4, atol=1e-6)
    assert logs.grad[4:, 1].abs().max().item() == 0


def test_ctc_of_labels_that_do_not_fit(device):
    x = torch.tensor(rand(3, 2, 3), device=device).log_softmax(2).requires_grad_()
    targets = torch.tensor([[1, 1], [1, 2]], device=device)
    loss = F.ctc_loss(x, targets, (2, 3), (2, 2), reduction="none")
    assert loss[0].item() == math.inf and loss[1].item() > 0
    loss.sum().backward()
    assert x.grad[:2, 0].isnan().all() and (x.grad[2, 0] == 0).all() and x.grad[:, 1].isfinite().all()
    x.grad = None
    loss = nn.CTCLoss(reduction="none", zero_infinity=True)(x, targets, (2, 3), (2, 2))
    loss.sum().backward()
    assert loss[0].item() == 0 and (x.grad[:, 0] == 0).all() and x.grad[:, 1].abs().sum().item() > 0
    (g,) = torch.autograd.grad(F.ctc_loss(x, targets, (3, 3), (1, 2)), x, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for aten::_ctc_loss_backward is not implemented"):
        g.sum().backward()


def test_ctc_of_other_lengths_compiles_nothing():
    x = torch.tensor(rand(8, 2, 5), device="tpu").log_softmax(2).requires_grad_()
    targets = torch.tensor([[1, 2, 3], [4, 4, 1]], device="tpu")

    def step(steps, labels):
        x.grad = None
        loss = F.ctc_loss(x, targets, steps, labels)
        loss.backward()
        return loss.item() + x.grad.sum().item()

    step((8, 7), (3, 2)), step((8, 7), (3, 2))
    before = torch.tpu.compilation_count()
    step((5, 8), (1, 3)), step((2, 0), (0, 0))
    assert torch.tpu.compilation_count() == before
