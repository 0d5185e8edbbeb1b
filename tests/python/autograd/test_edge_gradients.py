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

# Results that are other numbers than PyTorch's at some points, by the reason. The last word says which: the value, the
# gradient of an operand (g0, g1), or its second gradient (h0, h1).
OTHERS = {
    "PyTorch loses digits, or the limit": """
        erf value/ndtr value/sinc g0/sinc h0/i0e g0/i0e h0/i1 h0/i1e g0/i1e h0/log_ndtr g0/log_ndtr h0/logit h0
        atan2 g0/atan2 g1/hypot h1/polygamma(1) value/logaddexp2 g0/logaddexp2 g1""",
    "terms cancel in both libraries": """
        atan h0/erfcx g0/erfcx h0/gelu(tanh) h0/logaddexp h0/logaddexp h1/logaddexp2 value/logsigmoid h0
        poisson_nll_loss(full) g1""",
    "squares of the divisor leave the range": """
        softsign g0/softsign h0/where(x > 0, xlogy(x, x)) h0/hypot h0
        poisson_nll_loss(no log) h0/pow h0/asinh g0""",
    "a number near zero is lost beside one": "soft_margin_loss h0",
    "roots of -0.0": "x**0.5 g0/x**-0.5 value",
    "outside of the domain": "zeta value/zeta g1/zeta h1",
    "the gradient is bounded at 0 and 1, so its slope is too": """
        binary_cross_entropy h0/binary_cross_entropy(weight) h0""",
}
# The same in 16 bits.
NARROW = {
    "PyTorch rounds or leaves the range on the way": """
        acosh g0/log10 g0/tanhshrink value/hypot g0/hypot g1/pow value/pow g0/pow g1
        poisson_nll_loss value/poisson_nll_loss g0/poisson_nll_loss g1/poisson_nll_loss(no log) value
        poisson_nll_loss(no log) g0/poisson_nll_loss(no log) g1/soft_margin_loss value/soft_margin_loss g0
        soft_margin_loss g1/sinc value/ldexp value/ldexp g1/kl_div(log) value/kl_div(log) g1""",
}

# The same in programs of a compiler.
COMPILED = {
    "16-bit results are not rounded before the gradient reads them": "sigmoid g0/tanh g0",
    "the last digit of tanh decides, where it is nearly one": "tanh h0/mish h0/tanhshrink h0",
    "a product is not rounded before it is subtracted": "poisson_nll_loss value",
}


def _keys(groups):
    names = "/".join(groups.values()).replace("\n", "/").split("/")
    return {tuple(name.strip().rsplit(" ", 1)) for name in names if name.strip()}


KNOWN = _keys(OTHERS)
KNOWN_NARROW = KNOWN | _keys(NARROW)
KNOWN_COMPILED = _keys(COMPILED)


def expected(name, dtype):
    """Return PyTorch's rows: the value, the gradients, and the second gradients."""
    rows = RECORDED[name]["float32"]
    if dtype == "float32":
        return rows
    changes = RECORDED[name][dtype]
    if isinstance(changes, str):
        return None
    return [[change.get(str(i), v) for i, v in enumerate(row)] for row, change in zip(rows, changes)]


def differences(name, dtype, rows, is_compiled=False):
    """Yield the numbers that are not PyTorch's: which, where, PyTorch's, ours.

    Where PyTorch's gradient is NaN the point is outside of its domain, and any number is as good. Only `logit` must be
    NaN there.
    """
    operands = CASES[name][1]
    labels = ["value", *(f"{order}{i}" for order in "gh" for i in range(len(operands)))]
    unknown = set()
    known = KNOWN_NARROW if dtype in ("float16", "bfloat16") else KNOWN
    known = known | KNOWN_COMPILED if is_compiled else known
    for label, want, got in zip(labels, expected(name, dtype), rows):
        assert len(want) == len(got)
        for i, (a, b) in enumerate(zip(want, got)):
            if a != a and name != "logit":
                unknown.add(i)
            if i not in unknown and (name, label) not in known and not RECORDER["is_close"](a, b, dtype):
                yield label, tuple(x[i] for x in operands), a, b


@pytest.mark.parametrize("dtype", RECORDER["DTYPES"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_at_special_points_are_pytorchs(name, dtype):
    if expected(name, dtype) is None:
        return  # PyTorch has no kernel for this dtype
    f, operands = CASES[name]
    rows = RECORDER["listed"](RECORDER["compute"](torch, f, operands, dtype))
    assert list(differences(name, dtype, rows)) == []


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("part", range(8))
def test_compiled_gradients_at_special_points_are_pytorchs(part, dtype):
    # Several functions make one program. The other dtypes, and programs op by op, are left to `make nightly`.
    names = [name for name in list(CASES)[part::8] if expected(name, dtype) is not None]
    rows = {name: RECORDER["compute"](torch, *CASES[name], dtype, "tpu") for name in names}
    found = {name: list(differences(name, dtype, RECORDER["listed"](rows[name]), True)) for name in names}
    assert {name: d for name, d in found.items() if d} == {}
