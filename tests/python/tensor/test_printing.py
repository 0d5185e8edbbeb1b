"""Printing of tensors and named results."""

import pytpu as torch


def test_named_results_print_a_line_a_field():
    assert repr(torch.max(torch.tensor([[1.0, 2.0]]), 1)) == (
        "torch.return_types.max(\nvalues=tensor([2.]),\nindices=tensor([1]))"
    )


def test_print_options_are_kept_until_the_profile_changes():
    x = torch.tensor([1.23456, 2.0])
    try:
        torch.set_printoptions(precision=2)
        assert str(x) == "tensor([1.23, 2.00])"
        torch.set_printoptions(sci_mode=True)
        assert str(x) == "tensor([1.23e+00, 2.00e+00])"
        torch.set_printoptions(profile="default", threshold=3, edgeitems=1)
        assert str(torch.arange(10)) == "tensor([0,  ..., 9])"
    finally:
        torch.set_printoptions(profile="default")
    assert str(x) == "tensor([1.2346, 2.0000])"
