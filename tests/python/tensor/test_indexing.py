"""`x[...]` and `x[...] = v` against NumPy."""

import numpy as np
import pytest

import pytpu as torch

A = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


def t(a):
    return torch.from_numpy(a.copy())


KEYS = [
    0,
    -1,
    (0, 1),
    (slice(None), 1),
    (..., 2),
    (slice(0, 1), slice(None, None, 2)),
    None,
    (None, 0, None, ...),
    (0, None, slice(1, 3), ..., -1),
    [0, 1, 1],
    ([0, 1], [2, 0]),
    (slice(None), [2, 0]),
    (0, [2, 0], slice(None), [1, 3]),
    (slice(None), [[0, 1], [2, 2]]),
    ([0, 1], slice(None), [1, 2]),
    True,
    False,
    (True, 0),
    ...,
    (),
    (slice(5, 2),),
    (slice(-2, 100),),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_get(key):
    got, want = t(A)[key], A[key]
    assert tuple(got.shape) == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_set_number(key):
    x, a = t(A), A.copy()
    x[key] = 7
    a[key] = 7
    np.testing.assert_array_equal(x.numpy(), a)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_set_tensor(key):
    x, a = t(A), A.copy()
    value = -np.arange(a[key].size, dtype=np.float32).reshape(a[key].shape)
    x[key] = torch.from_numpy(value)
    a[key] = value
    np.testing.assert_array_equal(x.numpy(), a)


def test_masks():
    x, a = t(A), A.copy()
    mask = A % 3 == 0
    np.testing.assert_array_equal(x[torch.from_numpy(mask)].numpy(), a[mask])
    np.testing.assert_array_equal(x[torch.from_numpy(mask[:, :, 0, 0])].numpy(), a[mask[:, :, 0, 0]])
    x[torch.from_numpy(mask)] = 0
    a[mask] = 0
    np.testing.assert_array_equal(x.numpy(), a)
    rows = np.array([True, False])
    x[rows] = -1.0
    a[rows] = -1.0
    np.testing.assert_array_equal(x.numpy(), a)


def test_basic_indexing_gives_views():
    x = torch.zeros(3, 4)
    x[1][2] = 5
    x[:, 0] += 1
    assert x.tolist() == [[1, 0, 0, 0], [1, 0, 5, 0], [1, 0, 0, 0]]
    assert x[...]._base is x


def test_gradients_flow_through_indices():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    (x[:, [0, 0, 2]] * 2).sum().backward()
    assert x.grad.tolist() == [[4.0, 0.0, 2.0], [4.0, 0.0, 2.0]]


def test_gradients_flow_through_assignment():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y[0] = 0
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "key, error, text",
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((0, -7), IndexError, "index -7 is out of bounds for dimension 1 with size 3"),
        ((0,) * 5, IndexError, "too many indices for tensor of dimension 4"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (
            1.0,
            IndexError,
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices",
        ),
        (
            torch.tensor([True, False, True]),
            IndexError,
            "The shape of the mask [3] at index 0 does not match the shape of the indexed tensor",
        ),
        (torch.tensor([9]), IndexError, "index 9 is out of bounds for dimension 0 with size 2"),
        (torch.tensor([1.0]), IndexError, "tensors used as indices must be long"),
    ],
    ids=str,
)
def test_errors(key, error, text):
    with pytest.raises(error) as e:
        t(A)[key]
    assert text in str(e.value)


def test_zero_dimensional():
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        torch.tensor(1)[0]
    assert torch.tensor(1)[...].item() == 1
    assert torch.tensor(3.0)[None].shape == (1,)


def test_lists_that_hold_lists_or_slices_are_tuples(device):
    x = torch.arange(24, device=device).reshape(2, 3, 4)
    assert torch.equal(x[[[0, 1], [1, 0]]], x[[0, 1], [1, 0]])
    assert torch.equal(x[[slice(0, 1)]], x[:1])
    assert torch.equal(x[[None]], x[None])
    assert torch.equal(x[range(2)], x)
    assert torch.equal(x[..., ...], x)
    assert torch.equal(x[[1.5]], x[[1]])
    x[[[0, 1], [1, 0]]] = 7
    assert x[0, 1].tolist() == [7] * 4 and x[1, 0].tolist() == [7] * 4 and x[0, 0, 1].item() == 1


def test_a_mask_over_leading_dimensions_takes_a_number_of_any_dtype(device):
    x = torch.zeros(2, 3, device=device)
    x[torch.tensor([True, False], device=device)] = torch.tensor(5, device=device)
    assert x.tolist() == [[5.0] * 3, [0.0] * 3]


def test_results_of_indexing_are_contiguous(device):
    x = torch.arange(24.0, device=device).reshape(2, 3, 4)
    for y in (x[:, [0, 2]], x[:, :, [1, 3]], x[:, torch.tensor([True, False, True])], x[:, [0, 1], [2, 3]]):
        assert y.is_contiguous() and not y._is_view()
        y.detach_()
    assert x[:, [0, 2]].view(-1).tolist() == x[:, ::2].reshape(-1).tolist()


def test_masks_of_the_host_and_of_bytes(device):
    x = torch.ones(2, 2, device=device)
    x[torch.tensor([True, False])] = 0.0
    assert x.tolist() == [[0, 0], [1, 1]]
    a, b = torch.tensor([1, 2], device=device), torch.tensor([3, 4], device=device)
    assert torch.where(torch.tensor([1, 0], dtype=torch.uint8, device=device), a, b).tolist() == [1, 4]


def test_written_values_lose_leading_ones(device):
    x = torch.zeros(4, 2, device=device)
    x[torch.tensor([True, False, True, False])] = torch.ones(1, 1, 1, 2, device=device)
    x[(1, 3), (1, 0)] = torch.full((1, 2), 5.0, device=device)
    assert x.tolist() == [[1, 1], [0, 5], [1, 1], [5, 0]]
    x[3, [True, False]] = torch.full((1, 1), 7.0, device=device)
    mask = torch.tensor([False, True, False, False], device=device)
    x[mask] = torch.tensor([9.0], dtype=torch.float64)
    assert x.tolist() == [[1, 1], [9, 9], [1, 1], [7, 0]]
    counts = torch.zeros(4, dtype=torch.int64, device=device)
    counts[mask] = torch.tensor([2.0])
    assert counts.tolist() == [0, 2, 0, 0]
    with pytest.raises(RuntimeError, match="value tensor of shape \\[3\\] cannot be broadcast"):
        x[[0, 1]] = torch.ones(1, 3, device=device)


def test_a_byte_is_a_mask_and_no_index(device):
    a = torch.tensor([1, 2, 3], device=device)
    on, off = (torch.tensor(v, dtype=torch.uint8, device=device) for v in (1, 0))
    assert a[on].tolist() == [[1, 2, 3]] and a[off].shape == (0, 3) and torch.tensor(1)[on].shape == (1,)
    b = torch.zeros(2, 2, device=device)
    b[off] = 5
    assert b.sum().item() == 0
    b[on] = 5
    assert b.sum().item() == 20
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        assert a[torch.tensor([1, 0, 1], dtype=torch.uint8, device=device)].tolist() == [1, 3]
    assert [10, 20][on] == 20
