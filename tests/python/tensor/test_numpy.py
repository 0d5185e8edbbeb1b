"""NumPy arrays and tensors in one expression."""

import numpy as np
import pytest

import pytpu as torch


def test_arrays_of_numpy_beside_tensors():
    x, array = torch.tensor([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 3.0])
    assert (x == array).tolist() == [True, False, True] == (array == x).tolist()
    quotient = array / x
    assert quotient.dtype == torch.float64 and quotient.tolist() == pytest.approx([1.0, 2.5, 1.0])
    assert (x == np.array(["a"])) is False
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x == array[:2]


def test_numpy_of_leaves_works_in_no_grad():
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert x.numpy().tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
        x.numpy()
