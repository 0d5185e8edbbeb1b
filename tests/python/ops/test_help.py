"""Signatures and help texts of the functions and methods of the op table."""

import inspect
import types

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


@pytest.mark.parametrize("cls", [torch.Tensor, torch.dtype, torch.device, torch.Generator])
def test_methods_and_properties_written_by_hand_have_help(cls):
    kinds = {"method_descriptor", "getset_descriptor"}
    own = {name: value for name, value in vars(cls).items() if type(value).__name__ in kinds and not name[:2] == "__"}
    assert {name for name, value in own.items() if not value.__doc__} == set()
    methods = {name: value for name, value in own.items() if type(value).__name__ == "method_descriptor"}
    assert {name for name, value in methods.items() if value.__text_signature__ is None} <= UNNAMEABLE
    assert own


def test_functions_written_by_hand_have_help():
    own = {name: value for name, value in vars(torch._C).items() if isinstance(value, types.BuiltinFunctionType)}
    assert {name for name, value in own.items() if not value.__doc__ or value.__text_signature__ is None} == set()
    assert "get_default_dtype" in own


def test_help_of_a_method_written_by_hand():
    assert str(inspect.signature(torch.Tensor.size)) == "(self, /, dim=None)"
    assert torch.Tensor.size.__doc__.startswith("Return the sizes")
    assert torch.Tensor.shape.__doc__ == "The sizes, a `torch.Size`."
