"""Arguments of ``Tensor.to`` and ``Tensor._make_subclass``."""

import re

import pytest

import pytpu as torch


class Unknown:
    """An object whose truth value is an error."""

    def __bool__(self):
        raise ValueError("neither true nor false")


@pytest.mark.parametrize(
    ("call", "got"),
    [
        (lambda x, flag: x.to(torch.float64, flag), "torch.dtype, Unknown"),
        (lambda x, flag: x.to(torch.float64, copy=flag), "torch.dtype, copy=Unknown"),
        (lambda x, flag: x.to("cpu", torch.float64, False, flag), "str, torch.dtype, bool, Unknown"),
        (lambda x, flag: x.to("cpu", non_blocking=flag), "str, non_blocking=Unknown"),
        (lambda x, flag: x.to("cpu", flag), "str, Unknown"),
        (lambda x, flag: x.to(torch.float64, torch.float64), "torch.dtype, torch.dtype"),
    ],
)
def test_flags_of_to_must_be_bools(call, got):
    want = f"to() received an invalid combination of arguments - got ({got}), but expected one of:"
    with pytest.raises(TypeError, match=re.escape(want)):
        call(torch.ones(2), Unknown())


def test_flags_of_to_have_their_places(device):
    x = torch.ones(2, device=device)
    copies = (
        x.to(device, torch.float32, False, True),
        x.to(torch.float32, False, True),
        x.to(x, False, True),
        x.to(copy=True),
    )
    assert all(y is not x for y in copies)
    assert x.to(device, torch.float32, True) is x.to(torch.float32, True) is x.to(x, True) is x.to(device, None) is x


def test_make_subclass_takes_a_bool():
    x = torch.ones(2)
    make = torch.Tensor._make_subclass
    assert (
        make(torch.nn.Parameter, x, True).requires_grad
        and not make(torch.nn.Parameter, x, require_grad=False).requires_grad
    )
    with pytest.raises(
        TypeError, match=r"_make_subclass\(\): argument 'require_grad' \(position 3\) must be bool, not Unknown"
    ):
        make(torch.nn.Parameter, x, Unknown())
