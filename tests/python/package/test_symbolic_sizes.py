"""`torch.sym_*` functions on numbers."""

import pytest

import pytpu as torch


def test_functions_of_symbolic_sizes_work_on_numbers():
    assert (torch.sym_int(-3.7), torch.sym_float(3), torch.sym_not(True)) == (-3, 3.0, False)
    assert (torch.sym_sum([1, 2]), torch.sym_sqrt(4)) == (3, 2)
    assert type(torch.sym_max(3, 2.0)) is float and type(torch.sym_min(True, 2)) is int
    assert torch.sym_ite(False, 1, 2) == 2
    with pytest.raises(AssertionError, match="expected SymBool or bool, got <class 'int'>"):
        torch.sym_ite(1, 1, 2)
