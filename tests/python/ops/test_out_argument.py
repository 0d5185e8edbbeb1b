"""Errors of `out=` arguments."""

import pytest

import pytpu as torch


def test_out_must_have_the_dtype_of_the_input():
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        torch.gather(x, 1, torch.zeros(2, 1, dtype=torch.long), out=torch.empty(2, 1, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="Expected the dtype for input and out to match"):
        torch.amax(x, 1, out=torch.empty(2, dtype=torch.float64))


def test_out_must_not_overlap_the_operands_of_cat():
    x = torch.ones(4, 2)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        torch.cat((x, x), out=x[:2])
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.masked_select(x, x > 0, out=x)
