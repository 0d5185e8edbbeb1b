"""Signatures and help texts of the functions and methods of the op table."""

import inspect

import pytest

import pytpu as torch

# Their schemas have a parameter named `from`, which no signature can show.
UNNAMEABLE = {"random_", "uniform_"}

FUNCTIONS = {name: f for name, f in vars(torch._C._ops).items() if not name.startswith("__")}


def test_functions_have_signatures():
    without = {name for name, function in FUNCTIONS.items() if function.__text_signature__ is None}
    assert without == UNNAMEABLE
    for name in FUNCTIONS.keys() - UNNAMEABLE:
        inspect.signature(FUNCTIONS[name])


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (torch.addmm, "(input, mat1, mat2, *, beta=1, alpha=1, out=None)"),
        (torch.softmax, "(input, dim, dtype=None, *, out=None)"),
        (torch.max, "(input, dim=None, keepdim=False, other=None, *, out=None)"),
        (torch.Tensor.addmm, "(self, /, mat1, mat2, *, beta=1, alpha=1)"),
        (torch.Tensor.addmm_, "(self, /, mat1, mat2, *, beta=1, alpha=1)"),
        (torch.Tensor.unsqueeze, "(self, /, dim)"),
    ],
)
def test_signatures_name_parameters_and_defaults(function, signature):
    assert str(inspect.signature(function)) == signature


def test_help_lists_overloads():
    assert "max(Tensor input, int dim, bool keepdim = False, *, tuple of Tensors out = None)" in torch.max.__doc__


def test_help_of_an_in_place_form_names_the_function():
    assert torch.Tensor.addmm_.__doc__.startswith("In-place form of ``addmm``")
