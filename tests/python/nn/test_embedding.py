"""`Embedding` and `EmbeddingBag`."""

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F


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


def test_embedding_padding_row_is_zero_and_gets_no_gradient(device):
    layer = nn.Embedding(4, 2, padding_idx=1).to(device)
    assert float(layer.weight[1].abs().sum()) == 0
    layer(torch.tensor([0, 1, 1], device=device)).sum().backward()
    assert layer.weight.grad.cpu().tolist() == [[1, 1], [0, 0], [0, 0], [0, 0]]


def test_sparse_gradients_are_refused():
    weight, index = torch.ones(3, 2, requires_grad=True), torch.tensor([1])
    with pytest.raises(NotImplementedError, match="no sparse tensors yet"):
        F.embedding(index, weight, sparse=True)
    with pytest.raises(NotImplementedError, match="no sparse tensors yet"):
        F.embedding_bag(index, weight, torch.tensor([0]), sparse=True)
    with torch.no_grad():
        assert F.embedding(index, weight, sparse=True).tolist() == [[1, 1]]
    for make in (torch.nn.Embedding, torch.nn.EmbeddingBag):
        with pytest.raises(NotImplementedError, match="no sparse tensors yet"):
            make(3, 2, sparse=True)


def test_bags_with_a_bound_take_narrow_indices():
    e = torch.nn.EmbeddingBag(5, 2, max_norm=1.0)
    torch.nn.init.constant_(e.weight, 3.0)
    y = e(torch.tensor([1, 2], dtype=torch.int32), torch.tensor([0], dtype=torch.int32))
    assert y.shape == (1, 2) and e.weight[1].norm().item() <= 1 + 1e-5
