"""`Tensor.to_sparse`: places and values of a tensor, which other functions refuse."""

import copy
import pickle

import pytest

import pytpu as torch


def test_indices_and_values(device):
    x = torch.tensor([[0, 1.0, 0], [2, 0, 3]], device=device)
    sparse = x.to_sparse()
    assert sparse.indices().tolist() == [[0, 1, 1], [1, 0, 2]] and sparse.values().tolist() == [1, 2, 3]
    assert sparse.is_sparse and sparse.layout == torch.sparse_coo and sparse.is_coalesced() and sparse._nnz() == 3
    assert (sparse.shape, sparse.sparse_dim(), sparse.dense_dim(), len(sparse)) == ((2, 3), 2, 0, 2)
    assert torch.equal(sparse.to_dense(), x) and not sparse.to_dense().is_sparse
    rows = torch.tensor([[0.0, 0], [2, 0]], device=device).to_sparse(1)
    assert rows.indices().tolist() == [[1]] and rows.values().tolist() == [[2, 0]]
    assert (x > 0).to_sparse().indices().T.tolist() == [[0, 1], [1, 0], [1, 2]]


def test_copies_and_moves_keep_the_places(device):
    sparse = torch.eye(2).to_sparse()
    for other in (sparse.to(device), sparse.double(), sparse.clone(), sparse.detach(), copy.deepcopy(sparse)):
        assert other.is_sparse and other.indices().tolist() == [[0, 1], [0, 1]] and other.values().tolist() == [1, 1]
    module = torch.nn.Module()
    module.register_buffer("places", sparse, persistent=False)
    module.to(device)
    assert module.places.device.type == device and module.places.is_sparse


def test_gradients_reach_the_values():
    x = torch.tensor([[0, 2.0], [3, 0]], requires_grad=True)
    (x.to_sparse().to_dense() ** 2).sum().backward()
    assert x.grad.tolist() == [[0, 4], [6, 0]]


def test_other_functions_refuse():
    sparse = torch.eye(2).to_sparse()
    for use in (
        lambda: sparse + sparse, lambda: sparse @ torch.ones(2, 2), lambda: sparse.T, lambda: sparse.sum(),
        lambda: sparse[0], lambda: torch.relu(sparse), lambda: pickle.dumps(sparse), lambda: sparse.add_(1),
    ):  # fmt: skip
        with pytest.raises(
            NotImplementedError, match=r"sparse tensors are not there.*docs/not-there\.md#sparse-tensors"
        ):
            use()
    with pytest.raises(RuntimeError, match=r"sparse_dim argument must be in \[0,2\] range, but 3 is given"):
        torch.eye(2).to_sparse(3)
    with pytest.raises(NotImplementedError, match="sparse tensors are not there"):
        torch.eye(2).to_sparse(layout=torch.sparse_csr)


def test_the_text_is_that_of_pytorch():
    assert repr(torch.tensor([0, 5.0]).to_sparse()) == (
        "tensor(indices=tensor([[1]]),\n       values=tensor([5.]),\n       size=(2,), nnz=1, layout=torch.sparse_coo)"
    )
