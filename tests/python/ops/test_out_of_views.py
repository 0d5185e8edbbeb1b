"""`out=` of another size than a view: results are written where the view begins, and the base sees them."""

import pytest

import pytpu as torch

# From the base 0 ... 7: the view, the number of results (all 6), and the base afterwards.
CASES = {
    "part": (lambda x: x[2:6], 2, [0, 1, 6, 6, 4, 5, 6, 7]),
    "grows": (lambda x: x[2:4], 5, [0, 1, 6, 6, 6, 6, 6, 7]),
    "leaves the storage": (lambda x: x[2:4], 9, [0, 1, 6, 6, 6, 6, 6, 6]),
    # PyTorch writes here, too.
    "empty": (lambda x: x[:0], 3, [0, 1, 2, 3, 4, 5, 6, 7]),
    "steps": (lambda x: x[::2], 3, [6, 6, 6, 3, 4, 5, 6, 7]),
    "transposed": (lambda x: x.view(2, 4).t(), 3, [6, 6, 6, 3, 4, 5, 6, 7]),
    "detached": (lambda x: x[2:6].detach(), 2, [0, 1, 6, 6, 4, 5, 6, 7]),
    "data": (lambda x: x[2:6].data, 2, [0, 1, 6, 6, 4, 5, 6, 7]),
    "whole": (lambda x: x[:], 10, [6, 6, 6, 6, 6, 6, 6, 6]),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("case", CASES)
def test_the_base_sees_results_of_another_size(device, case):
    make, count, want = CASES[case]
    x = torch.arange(8, device=device)
    other = x[:]
    out = make(x)
    result = torch.add(torch.ones(count, dtype=torch.int64, device=device), 5, out=out)
    assert result is out and out.tolist() == [6] * count and out.stride() == (1,)
    assert x.tolist() == want and other.tolist() == want


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_several_results_and_an_owner(device):
    x, i = torch.arange(8.0, device=device), torch.zeros(8, dtype=torch.int64, device=device)
    torch.sort(torch.tensor([3.0, 1.0], device=device), out=(x[2:6], i[1:4]))
    assert x.tolist() == [0, 1, 1, 3, 4, 5, 6, 7] and i.tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    x = torch.arange(8.0, device=device)
    view = x[:]
    torch.add(torch.ones(3, device=device), 5, out=x)
    assert x.tolist() == [6, 6, 6] and view.tolist() == [6, 6, 6, 3, 4, 5, 6, 7]
