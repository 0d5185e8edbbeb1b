"""Tensors of more than eight dimensions, up to 64."""

import copy
import io
import random

import numpy as np
import pytest

import pytpu as torch


def sizes(rng, rank, most=6):
    """Return sizes of one, with at most `most` twos."""
    n = [1] * rank
    for d in rng.sample(range(rank), min(rank, most)):
        n[d] = 2
    return n


def both(rng, rank, device):
    n = sizes(rng, rank)
    x = np.random.default_rng(rank).standard_normal(n).astype(np.float32)
    return torch.from_numpy(x.copy()).to(device), x


RANKS = [9, 10, 12, 17, 25, 31]  # NumPy 1 allows 32


@pytest.mark.parametrize("rank", RANKS)
def test_arithmetic_reductions_and_shapes(device, close, rank):
    rng = random.Random(rank)
    x, a = both(rng, rank, device)
    y, b = both(rng, rank, device)
    close(x + 1, a + 1)
    close(torch.exp(x), np.exp(a))
    if all(m == n or 1 in (m, n) for m, n in zip(x.shape, y.shape)):
        close(x * y, a * b)
    dims = rng.sample(range(rank), 3)
    close(x.sum(), a.sum(), atol=1e-5)
    close(x.sum(dims), a.sum(tuple(dims)), atol=1e-5)
    close(x.mean(dims, keepdim=True), a.mean(tuple(dims), keepdims=True), atol=1e-5)
    close(x.amax(dims[0]), a.max(dims[0]))
    close(x.cumsum(dims[0]), a.cumsum(dims[0]), atol=1e-5)
    close(x.softmax(dims[0]), np.exp(a) / np.exp(a).sum(dims[0], keepdims=True))
    order = rng.sample(range(rank), rank)
    close(x.permute(order), a.transpose(order))
    close(x.permute(order) + x.permute(order), 2 * a.transpose(order))
    close(x.permute(order).clone(), a.transpose(order))
    close(x.permute(order).contiguous().view(-1), a.transpose(order).reshape(-1))
    close(x.transpose(0, -1), a.swapaxes(0, -1))
    close(x.flip(dims), np.flip(a, dims))
    close(x.roll(1, dims[0]), np.roll(a, 1, dims[0]))
    close(x.unsqueeze(3).squeeze(3), a)
    close(x.reshape(-1), a.reshape(-1))
    close(x.flatten(2, 5), a.reshape(a.shape[:2] + (-1,) + a.shape[6:]))
    close(torch.cat([x, x], dims[0]), np.concatenate([a, a], dims[0]))
    close(torch.stack([x, x], 4), np.stack([a, a], 4))
    close(x[..., 0], a[..., 0])
    close(x[0, ..., :, 0], a[0, ..., :, 0])
    close(torch.where(x > 0, x, 0.0), np.where(a > 0, a, 0))
    close(x.sort(dims[0])[0], np.sort(a, dims[0]))
    assert torch.equal(x.argmax(dims[0]).cpu(), torch.from_numpy(a.argmax(dims[0])))
    close(torch.nn.functional.pad(x, (1, 0, 0, 1)), np.pad(a, [(0, 0)] * (rank - 2) + [(0, 1), (1, 0)]))


@pytest.mark.parametrize("rank", RANKS)
def test_indexing_and_writing(device, close, rank):
    rng = random.Random(rank)
    x, a = both(rng, rank, device)
    d = next(i for i, n in enumerate(x.shape) if n == 2)
    key = (slice(None),) * d + (1,)
    x[key] = 5
    a[key] = 5
    close(x, a)
    at = torch.tensor([1, 0], device=device)
    close(x.index_select(d, at), a.take([1, 0], d))
    close(x.gather(d, torch.ones_like(x, dtype=torch.int64)), np.take_along_axis(a, np.ones(a.shape, np.int64), d))
    x.select(d, 0).zero_()
    a[(slice(None),) * d + (0,)] = 0
    close(x, a)
    x[x > 1] = 2
    a[a > 1] = 2
    close(x, a)
    assert x.nonzero().shape == (np.count_nonzero(a), rank)


@pytest.mark.parametrize("rank", RANKS)
def test_gradients(device, close, rank):
    x, a = both(random.Random(rank), rank, device)
    x.requires_grad_()
    ((x.permute(*reversed(range(rank))) * 2).exp().sum()).backward()
    close(x.grad, 2 * np.exp(2 * a), rtol=1e-4)


def test_the_most_dimensions(device):
    x = torch.ones([1] * 62 + [2, 2], device=device)
    assert x.dim() == 64 and (x + x).sum().item() == 8 and x.sum(63).shape == (1,) * 62 + (2,)
    assert x.sum(tuple(range(64))).item() == 4 and x.sum((0, 62), keepdim=True).shape == (1,) * 63 + (2,)
    for f in (lambda: x.unsqueeze(0), lambda: torch.zeros([1] * 65, device=device), lambda: torch.stack([x, x])):
        with pytest.raises(RuntimeError, match="only tensors with up to 64 dims are supported"):
            f()


def test_matrix_products_of_many_batch_dimensions(device, close):
    x, a = torch.arange(8.0, device=device).view([1] * 7 + [2, 2, 2]), np.arange(8.0).reshape([1] * 7 + [2, 2, 2])
    close(x @ x, a @ a)
    close(torch.nn.functional.linear(x, x.view(2, 2, 2)[0]), a @ np.arange(4.0).reshape(2, 2).T)


def test_copies_and_files(device):
    x = torch.arange(16.0, device=device).view([2, 1, 2, 1, 2, 1, 2, 1, 1, 1, 1])
    assert torch.equal(copy.deepcopy(x), x) and repr(x).count("[") > 11
    f = io.BytesIO()
    torch.save(x.transpose(0, 6), f)
    f.seek(0)
    y = torch.load(f)
    assert torch.equal(y, x.transpose(0, 6)) and y.shape == x.shape
    assert np.array(x.tolist()).shape == x.shape


def test_steps_over_many_dimensions_do_not_grow_a_table(device):
    x = torch.ones([2] + [1] * 9, device=device, requires_grad=True)
    for _ in range(50):
        x.grad = None
        (x * 2).transpose(0, 9).sum().backward()
    assert x.grad.flatten().tolist() == [2, 2]


def test_repeats_of_many_dimensions(device):
    x = torch.arange(6.0, device=device).reshape(1, 2, 1, 1, 3).requires_grad_()
    y = x.repeat(2, 1, 3, 0, 2)
    assert y.shape == (2, 2, 3, 0, 6)
    y = x.repeat(2, 2, 3, 1, 2)
    assert y.shape == (2, 4, 3, 1, 6) and y[1, 3, 2, 0].tolist() == [3, 4, 5, 3, 4, 5]
    y.sum().backward()
    assert x.grad.unique().tolist() == [24]
