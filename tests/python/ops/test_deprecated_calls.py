"""Calls with a number between tensors, which PyTorch has deprecated."""

import pytest

import pytpu as torch

X, M, B = torch.ones(2), torch.ones(2, 2), torch.ones(2, 2, 2)


@pytest.mark.parametrize(
    "call, today",
    [
        (lambda: torch.add(X, 0.5, X), lambda: torch.add(X, X, alpha=0.5)),
        (lambda: X.add(0.5, X), lambda: X.add(X, alpha=0.5)),
        (lambda: X.clone().add_(0.5, X), lambda: X.clone().add_(X, alpha=0.5)),
        (lambda: torch.sub(X, 3, X), lambda: torch.sub(X, X, alpha=3)),
        (lambda: X.clone().sub_(3, X), lambda: X.clone().sub_(X, alpha=3)),
        (lambda: torch.addcmul(X, 0.5, X, X), lambda: torch.addcmul(X, X, X, value=0.5)),
        (lambda: X.clone().addcmul_(0.5, X, X), lambda: X.clone().addcmul_(X, X, value=0.5)),
        (lambda: X.clone().addcdiv_(-0.5, X, X), lambda: X.clone().addcdiv_(X, X, value=-0.5)),
        (lambda: torch.addmm(2, M, 3, M, M), lambda: torch.addmm(M, M, M, beta=2, alpha=3)),
        (lambda: torch.addmm(2, M, M, M), lambda: torch.addmm(M, M, M, beta=2)),
        (lambda: M.addmm(2, 3, M, M), lambda: M.addmm(M, M, beta=2, alpha=3)),
        (lambda: M.clone().addmm_(2, M, M), lambda: M.clone().addmm_(M, M, beta=2)),
        (lambda: torch.addmv(2, X, 3, M, X), lambda: torch.addmv(X, M, X, beta=2, alpha=3)),
        (lambda: M.addr(2, 3, X, X), lambda: M.addr(X, X, beta=2, alpha=3)),
        (lambda: torch.addbmm(2, M, 3, B, B), lambda: torch.addbmm(M, B, B, beta=2, alpha=3)),
        (lambda: B.clone().baddbmm_(2, 3, B, B), lambda: B.clone().baddbmm_(B, B, beta=2, alpha=3)),
        (lambda: torch.add(X, 0.5, X, out=torch.empty(2)), lambda: torch.add(X, X, alpha=0.5)),
        (lambda: torch.addcmul(X, torch.tensor(0.5), X, X), lambda: torch.addcmul(X, X, X, value=0.5)),
    ],
)
def test_numbers_between_tensors_are_taken(call, today):
    assert torch.equal(call(), today())


def test_numbers_between_tensors_are_called_deprecated_once():
    import subprocess
    import sys

    program = (
        "import warnings, pytpu as torch\n"
        "warnings.simplefilter('always')\n"
        "x = torch.ones(2); x.add_(0.5, x); x.add_(0.5, x); x.sub_(1, x)"
    )
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert text.count("This overload of add_ is deprecated:\n\tadd_(Number alpha, Tensor other)") == 1
    assert "\tadd_(Tensor other, *, Number alpha = 1)" in text and "sub_" not in text


def test_numbers_elsewhere_are_refused_as_before():
    for call in (
        lambda: X.add(X, 0.5),
        lambda: torch.true_divide(X, 0.5, X),
        lambda: torch.addmm(M, M, M, 2),
        lambda: torch.add(X, 1, 2, X),
    ):
        with pytest.raises(TypeError):
            call()
