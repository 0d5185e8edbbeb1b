"""`AdaptiveLogSoftmaxWithLoss`: classes in a head and clusters."""

import copy
import math
import pickle

import pytest

import pytpu as torch
from pytpu import nn


def uniform(device, *args, **kwargs):
    """Return a layer of zeros, which gives all choices the same probability."""
    layer = nn.AdaptiveLogSoftmaxWithLoss(*args, **kwargs, device=device)
    with torch.no_grad():
        for p in layer.parameters():
            p.zero_()
    return layer


def test_a_cluster_shares_the_probability_that_the_head_gives_it(device):
    layer = uniform(device, 16, 10, [3, 6])
    head, first, second = (math.log(1 / p) for p in (5, 5 * 3, 5 * 4))
    x = torch.ones(4, 16, device=device)
    want = [head] * 3 + [first] * 3 + [second] * 4
    assert layer.log_prob(x)[1].tolist() == pytest.approx(want)
    output, loss = layer(x, torch.tensor([9, 0, 3, 2], device=device))
    assert output.tolist() == pytest.approx([second, head, first, head])
    assert loss.item() == pytest.approx(-(second + first + 2 * head) / 4)
    one = layer(x[0], torch.tensor(5, device=device))
    assert one.output.shape == one.loss.shape == () and one.output.item() == pytest.approx(first)


def test_the_layer_has_the_parts_that_pytorchs_has():
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 10, (3, 6), head_bias=True)
    assert {name: tuple(p.shape) for name, p in layer.state_dict().items()} == {
        "head.weight": (5, 16), "head.bias": (5,),
        "tail.0.0.weight": (4, 16), "tail.0.1.weight": (3, 4),
        "tail.1.0.weight": (1, 16), "tail.1.1.weight": (4, 1),
    }  # fmt: skip
    assert (layer.cutoffs, layer.shortlist_size, layer.n_clusters, layer.head_size) == ([3, 6, 10], 3, 2, 5)
    x = torch.randn(2, 16)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin.log_prob(x), layer.log_prob(x))
    before = layer.tail[1][1].weight.clone()
    layer.reset_parameters()
    assert not torch.equal(layer.tail[1][1].weight, before)
    assert layer.double()(x.double(), torch.tensor([1, 7])).output.dtype == torch.float64


@pytest.mark.parametrize("cutoffs", [[4], [2, 4, 7], [1, 2, 9]])
def test_outputs_gradients_and_predictions_agree_with_log_prob(cutoffs, device):
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 10, cutoffs, div_value=2.0, head_bias=True)
    x, target = torch.randn(20, 8) * 3, torch.arange(20) % 10
    layer, x, target = layer.to(device), x.to(device), target.to(device)
    every = layer.log_prob(x)
    assert torch.allclose(every.exp().sum(1), torch.ones(20, device=device), atol=1e-5)
    want = every.gather(1, target[:, None])[:, 0]
    grads = torch.autograd.grad(-want.mean(), layer.parameters())
    got = layer(x, target)
    assert torch.allclose(got.output, want, atol=1e-5)
    for g, other in zip(torch.autograd.grad(got.loss, layer.parameters()), grads):
        assert torch.allclose(g, other, atol=1e-5)
    head = layer.head(x).argmax(1)
    predicted = layer.predict(x)
    rare = head >= cutoffs[0]
    assert 0 < rare.sum().item() < 20
    assert torch.equal(predicted[~rare], head[~rare])
    assert torch.equal(predicted[rare], every.argmax(1)[rare])
    assert torch.equal(layer.predict(x[rare]), predicted[rare]) and torch.equal(
        layer.predict(x[~rare]), predicted[~rare]
    )


def test_a_cluster_without_targets_gets_no_gradient(device):
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 10, [3, 6], device=device)
    layer(torch.ones(3, 16, device=device), torch.tensor([0, 7, 8], device=device)).loss.backward()
    assert [p.grad is None for p in layer.parameters()] == [False, True, True, False, False]


def test_training_gives_pytorchs_losses(device):
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0)
    x, target = torch.randn(32, 8).to(device), (torch.rand(32) ** 3 * 20).long().to(device)
    optimizer = torch.optim.Adam(layer.to(device).parameters(), 0.05)
    losses = []
    for i in range(0, 30, 6):
        loss = layer(x[i : i + 6], target[i : i + 6]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    # Recorded from PyTorch.
    assert losses == pytest.approx([2.9645, 3.4558, 2.6310, 2.0965, 2.5051], abs=2e-4)


def test_other_targets_compile_no_new_program():
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 10, [3, 6], device="tpu")
    compilations = []
    for step in range(8):
        target = torch.tensor([0, 3, 6] + [6] * step + [0] * (7 - step), device="tpu")
        layer(torch.randn(10, 16, device="tpu"), target).loss.item()
        compilations.append(torch.tpu.compilation_count())
    assert compilations[2:] == compilations[-1:] * 6


def test_what_does_not_fit_is_refused(device):
    for cutoffs in ([0, 3], [3, 3], [3, 2], [3, 10], [2.5], [-1]):
        with pytest.raises(ValueError, match="sequence of unique, positive integers sorted in an increasing order"):
            nn.AdaptiveLogSoftmaxWithLoss(4, 10, cutoffs)
    with pytest.raises(ValueError, match="cutoffs should be a sequence of length larger than 0"):
        nn.AdaptiveLogSoftmaxWithLoss(4, 10, [])
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5], device=device)
    for x, target, text in [
        ((3, 4), [0, 12, 3], r"Target values should be in \[0, 9\], but values in range \[0, 12\] were found"),
        ((3, 4), [-1, 2, 9], r"values in range \[-1, 9\] were found"),
        ((3, 4), [1, 2], "Input and target should have the same size in the batch dimension."),
        ((4,), [1] * 4, r"1D target tensor expects 2D input tensors, but found inputs with size torch.Size\(\[4\]\)"),
        ((3, 4), 1, r"0D target tensor expects 1D input tensors, but found inputs with size torch.Size\(\[3, 4\]\)"),
        ((3, 4), [[1]] * 3, "0D or 1D target tensor expected, multi-target not supported"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            layer(torch.ones(x, device=device), torch.tensor(target, device=device))
