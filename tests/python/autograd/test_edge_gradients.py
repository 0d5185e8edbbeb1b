"""Values, gradients and second gradients at zeros, bounds, ties, infinities and NaN, compared with PyTorch's.

`goldens/record_edge_gradients.py` has the functions and the points, and wrote PyTorch's results.
"""

import json
import pathlib
import runpy

import pytest

import pytpu as torch

GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "goldens"
RECORDER = runpy.run_path(str(GOLDENS / "record_edge_gradients.py"))
RECORDED = json.loads((GOLDENS / "edge_gradients.json").read_text())
CASES = {name: (f, operands) for name, f, operands in RECORDER["cases"](torch)}

# Results that are other numbers than PyTorch's, with the reason. The last word says which: the value, the gradient of
# an operand (g0, g1), or its second gradient (h0, h1).
OTHERS: dict[tuple[str, str, str], str] = {}


def expected(name, dtype):
    """Return PyTorch's rows: the value, the gradients, and the second gradients."""
    rows = RECORDED[name]["float32"]
    if dtype == "float32":
        return rows
    changes = RECORDED[name][dtype]
    if isinstance(changes, str):
        return None
    return [[change.get(str(i), v) for i, v in enumerate(row)] for row, change in zip(rows, changes)]


def differences(name, dtype, rows):
    """Yield the numbers that are not PyTorch's: which, where, PyTorch's, ours.

    Where PyTorch's gradient is NaN the point is outside of its domain, and any number is as good. Only `logit` must be
    NaN there.
    """
    operands = CASES[name][1]
    labels = ["value", *(f"{order}{i}" for order in "gh" for i in range(len(operands)))]
    unknown = set()
    for label, want, got in zip(labels, expected(name, dtype), rows):
        assert len(want) == len(got)
        for i, (a, b) in enumerate(zip(want, got)):
            if a != a and name != "logit":
                unknown.add(i)
            if i not in unknown and not RECORDER["is_close"](a, b, dtype):
                if (name, dtype, label) not in OTHERS and (name, "all", label) not in OTHERS:
                    yield label, tuple(x[i] for x in operands), a, b


@pytest.mark.parametrize("dtype", RECORDER["DTYPES"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_at_special_points_are_pytorchs(name, dtype):
    if expected(name, dtype) is None:
        return  # PyTorch has no kernel for this dtype
    f, operands = CASES[name]
    rows = RECORDER["listed"](RECORDER["compute"](torch, f, operands, dtype))
    assert list(differences(name, dtype, rows)) == []
