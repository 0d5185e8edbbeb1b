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
