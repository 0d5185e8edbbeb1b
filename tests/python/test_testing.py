"""`torch.testing`, with PyTorch's messages."""

import numpy as np
import pytest

import pytpu as torch
from pytpu.testing import assert_close


def t(*values, **kwargs):
    return torch.tensor(*values, **kwargs)


ELEMENTS = """Tensor-likes are not close!

Mismatched elements: 1 / 4 (25.0%)
Greatest absolute difference: 1.0 at index (1, 0) (up to 1e-05 allowed)
Greatest relative difference: 0.25 at index (1, 0) (up to 1.3e-06 allowed)"""
INTEGERS = """Tensor-likes are not equal!

Mismatched elements: 1 / 3 (33.3%)
Greatest absolute difference: 1 at index (2,)
Greatest relative difference: 0.25 at index (2,)"""
NUMBERS = """Scalars are not close!

Expected 3.0 but got 2.0.
Absolute difference: 1.0 (up to 1e-07 allowed)
Relative difference: 0.3333333333333333 (up to 1e-07 allowed)

The failure occurred for item ['a'][1]"""

UNEQUAL = [
    (t([[1.0, 2.0], [3.0, 3.0]]), t([[1.0, 2.0], [4.0, 3.0]]), ELEMENTS),
    (t([1, 2, 3]), t([1, 2, 4]), INTEGERS),
    ({"a": [1.0, 2.0]}, {"a": (1.0, 3.0)}, NUMBERS),
    ([1.0], [1.0, 3.0], "The length of the sequences mismatch: 1 != 2"),
    (t([1.0]), t([1.0, 2.0]), "The values for attribute 'shape' do not match: torch.Size([1]) != torch.Size([2])."),
    (t([1.0]), t([1.0]).double(), "The values for attribute 'dtype' do not match: torch.float32 != torch.float64."),
    (t([1.0]), t([1.0]).to("tpu"), "The values for attribute 'device' do not match: cpu != tpu:0."),
    (True, False, "Booleans mismatch: True is not False"),
    (1, 2.0, "The (d)types do not match: <class 'int'> != <class 'float'>."),
]


@pytest.mark.parametrize("actual, expected, message", UNEQUAL)
def test_differences_are_reported(actual, expected, message):
    with pytest.raises(AssertionError) as error:
        assert_close(actual, expected)
    assert str(error.value) == message


def test_close_values_pass(device):
    x = torch.linspace(1, 2, 7, device=device)
    assert_close(x, x + 1e-6)
    assert_close(x, x.double() * 1.01, rtol=0.02, atol=0, check_dtype=False)
    assert_close({"x": [x, 1, None]}, {"x": (x.clone(), 1, None)})
    nan = t([float("nan"), float("inf")], device=device)
    assert_close(nan, nan.clone(), equal_nan=True)
    with pytest.raises(AssertionError):
        assert_close(nan, nan.clone())
    assert_close(np.float64(0.1) + np.float64(0.2), 0.3)
    assert_close(np.int64(1), 1)
    with pytest.raises(AssertionError, match="^seen: Tensor-likes"):
        assert_close(x, x + 1, msg=lambda text: "seen: " + text)


def test_incomparable_values_are_refused():
    with pytest.raises(ValueError, match="must be either specified or omitted, but got no atol"):
        assert_close(1.0, 1.0, rtol=0.1)
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close("a", "a")
    x = t([1.0])
    for actual, expected in ((x, 1.0), (x, [1.0]), ((1.0,), x), (x, np.ones(1, dtype=np.float32)), (x, "a")):
        kinds = f"of type {type(actual)} and {type(expected)}."
        with pytest.raises(TypeError, match=f"No comparison pair was able to handle inputs {kinds}$"):
            assert_close(actual, expected)
    with pytest.raises(TypeError, match=r"No comparison pair.*\n\nThe failure occurred for item \[1\]\['a'\]"):
        assert_close([x, {"a": x}], [x, {"a": [1.0]}])
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(x, torch.nn.Parameter(x), allow_subclasses=False)
    assert_close(x, torch.nn.Parameter(x))
    assert_close(x.to("meta"), x.to("meta"))


def test_every_listed_module_exists():
    assert [name for name in dir(torch) if not hasattr(torch, name)] == []


def test_tensors_are_made(device):
    x = torch.testing.make_tensor(3, 4, dtype=torch.float32, device=device, low=2, high=5, requires_grad=True)
    assert x.shape == (3, 4) and x.requires_grad and (x >= 2).all() and (x < 5).all()
    x = torch.testing.make_tensor((40, 5), dtype=torch.int8, device=device, noncontiguous=True, exclude_zero=True)
    assert x.stride() == (10, 2) and (x != 0).all() and -9 <= x.min() < 0 < x.max() <= 9
    assert torch.testing.make_tensor(2, dtype=torch.complex64, device=device).is_complex()
    assert torch.testing.make_tensor((), dtype=torch.bool, device=device).shape == ()
    make = {"device": device, "dtype": torch.uint8}
    with pytest.raises(
        ValueError, match=r"specified by `low` and `high` is \[300, 400\), but torch.uint8 only supports \[0, 256\)"
    ):
        torch.testing.make_tensor(3, low=300, high=400, **make)
    with pytest.raises(ValueError, match="`requires_grad=True` is not supported for boolean and integral dtypes"):
        torch.testing.make_tensor(3, requires_grad=True, **make)
    with pytest.raises(ValueError, match="`low` must be less than `high`, but got 3 >= 3"):
        torch.testing.make_tensor(3, low=3, high=3, **make)


def test_limits_are_drawn_in():
    make = torch.testing.make_tensor
    torch.manual_seed(0)
    # From PyTorch 2.15.
    assert make(3, dtype=torch.uint8, device="cpu", low=-3, high=3).tolist() == [2, 0, 2]
    torch.manual_seed(0)
    assert make(3, dtype=torch.int8, device="cpu", low=-500, high=500).tolist() == [44, -81, -11]
    torch.manual_seed(0)
    assert make(3, dtype=torch.float16, device="cpu", low=-1e300, high=1e300).tolist() == [-490.5, 35136.0, -53920.0]
    with pytest.warns(FutureWarning, match="Passing `low==high`"):
        assert make(2, dtype=torch.float32, device="cpu", low=1, high=1).tolist() == [1, 1]


def test_made_tensors_are_pytorchs():
    # From PyTorch 2.15.
    torch.manual_seed(0)
    x = torch.testing.make_tensor((3, 4), dtype=torch.float32, device="cpu", noncontiguous=True)
    assert_close([x.min().item(), x.max().item()], [-6.623451232910156, 7.473491668701172], rtol=1e-6, atol=0)


def test_the_older_comparison():
    with pytest.warns(FutureWarning, match="deprecated"):
        torch.testing.assert_allclose(torch.ones(2), [1.0, 1.00005])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match=r"up to 0.0001 allowed"):
        torch.testing.assert_allclose(torch.ones(2), torch.tensor([1.0, 1.0005], dtype=torch.float64))
