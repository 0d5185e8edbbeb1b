"""Writes to views that reach one element through several indices, such as `x.unfold(0, 3, 1)`.

PyTorch's loops write such a view element by element, so the last write to a place stays. The values are those of
PyTorch, which `goldens/record_overlapping.py` has recorded.
"""

import json
import math
import pathlib

import pytest

import pytpu as torch

CASES = json.loads((pathlib.Path(__file__).parents[1] / "goldens" / "overlapping.json").read_text())
WRITES = sorted({write for _, write, _ in CASES})


def written(device, view, write):
    b = torch.arange(9.0, device=device)
    names = {
        "torch": torch,
        "b": b,
        "a": lambda *shape: (torch.arange(float(math.prod(shape)), device=device) + 100).reshape(shape),
        "i": lambda *values: torch.tensor(values, device=device),
    }
    names["u"] = eval(view, names)
    try:
        exec(write, names)
    except (RuntimeError, IndexError) as error:
        return type(error).__name__
    return b.tolist()


def differences(device, write):
    found = []
    for view, of, want in CASES:
        if of == write:
            got = written(device, view, write)
            if got != (want if isinstance(want, str) else pytest.approx(want, rel=1e-6)):
                found.append(f"{view}: {got} instead of {want}")
    return found


@pytest.mark.parametrize("write", WRITES)
def test_the_last_write_to_an_element_stays(device, write):
    assert not differences(device, write)


@pytest.mark.parametrize("write", ["u[..., 1, 1] = 7", "u.mul_(10)", "u[i(1, 0)] = a(2, *u.shape[1:])"])
def test_strict_mode_writes_the_same(write):
    with torch.tpu.set_eager_mode("strict"):
        assert not differences("tpu", write)


def test_a_gradient_reaches_each_element_that_stays(device):
    x = torch.arange(5.0, device=device, requires_grad=True)
    v = torch.ones(3, 3, device=device, requires_grad=True)
    b = x * 2
    b.unfold(0, 3, 1)[1, 1] = v[0, 0]
    (b * torch.arange(5.0, device=device)).sum().backward()
    assert x.grad.tolist() == [0, 2, 0, 6, 8]
    assert v.grad[0, 0].item() == 2 and v.grad.sum().item() == 2
    b = x.detach() * 2
    b.unfold(0, 3, 1).copy_(v)
    v.grad = None
    (b * torch.arange(5.0, device=device)).sum().backward()
    # Elements that were overwritten later have no part in the result.
    assert v.grad.tolist() == [[0, 0, 0], [1, 0, 0], [2, 3, 4]]


def test_expanded_tensors_are_refused(device):
    for write in (lambda u: u.mul_(2), lambda u: u.copy_(torch.ones(3, 2, device=device))):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
            write(torch.ones(3, 1, device=device).expand(3, 2))
