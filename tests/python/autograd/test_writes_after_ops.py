"""Writes to the operands and results of an op before its backward.

Backward refuses a write to a tensor that the gradient reads. The library may save other tensors than PyTorch does, and
then it refuses other writes. No write that PyTorch allows is refused, except for those of `REFUSED`. The answers of
PyTorch were recorded by `goldens/record_writes_after_ops.py`.
"""

import json
import pathlib
import runpy

import pytest

import pytpu as torch

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens"
RECORD = runpy.run_path(str(GOLDENS / "record_writes_after_ops.py"))
ANSWERS = json.loads((GOLDENS / "writes_after_ops.json").read_text())
CASES = RECORD["cases"](torch)
# Writes that are refused here only, as the documents of differences say: the number of the operand or result.
REFUSED = {
    # PyTorch keeps the logarithms of the probabilities, a second tensor of the size of the logits.
    "cross_entropy": [0],
    # PyTorch's gradient of the result has the wrong sign for negative lengths.
    "polar": [0, 1],
    "polar (2, 1)": [0, 1],
}


def test_all_calls_are_recorded():
    assert sorted(CASES) == sorted(ANSWERS)


@pytest.mark.parametrize("name", list(CASES))
def test_no_write_is_refused_that_pytorch_allows(name, device):
    got = RECORD["answers"](torch, *CASES[name], device)
    assert None not in got, "a gradient reads a value that was overwritten"
    refused = [k for k, (g, w) in enumerate(zip(got, ANSWERS[name], strict=True)) if g and w is False]
    assert refused == REFUSED.get(name, [])


@pytest.mark.parametrize("c", [2, -0.3, 1e-3, 0.0, 1 + 2j])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.complex64], ids=str)
def test_gradients_of_a_number_by_a_tensor(c, dtype, device):
    if isinstance(c, complex) and not dtype.is_complex:
        pytest.skip("the number decides the dtype")
    x = torch.tensor([0.5, -1.25, 3.0, 40.0], dtype=dtype, device=device, requires_grad=True)
    y = c / x
    (g,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
    wide = x.detach().to(torch.complex128 if dtype.is_complex else torch.float64)
    want = (-c / wide**2).conj() if dtype.is_complex else -c / wide**2
    tolerance, least = {torch.float16: (4e-3, 1e-7), torch.float64: (1e-14, 0)}.get(dtype, (1e-6, 0))
    torch.testing.assert_close(g.detach().to(want.dtype), want, rtol=tolerance, atol=least)
    if not dtype.is_complex:
        (gg,) = torch.autograd.grad(g.sum(), x)
        torch.testing.assert_close(gg.to(want.dtype), 2 * c / wide**3, rtol=8 * tolerance, atol=1e-7)


def test_second_gradients_of_ldexp(device):
    x = torch.tensor([0.5, -1.5], dtype=torch.float64, device=device, requires_grad=True)
    e = torch.tensor([[1.0], [2.5]], dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(torch.ldexp, (x, e)) and torch.autograd.gradgradcheck(torch.ldexp, (x, e))
    assert torch.ldexp(x, e).grad_fn.name() == "LdexpBackward0"
    y = torch.ldexp(x, torch.tensor([3, -1], device=device))
    (g,) = torch.autograd.grad(y.sum(), x)
    assert g.tolist() == [8.0, 0.5]


def test_nodes_that_save_their_result_are_released_and_checked(device):
    x = torch.ones(2, device=device, requires_grad=True)
    y = torch.ldexp(x, x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()
    z = torch.ldexp(x, x)
    with torch.no_grad():
        z.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
