"""`torch.jit`: decorators and `isinstance`."""

import pytest

import pytpu as torch
from pytpu import nn


def test_decorators_of_torchscript_leave_things_as_they_are():
    @torch.jit.script
    def gelu(x):
        if torch.jit.is_scripting():
            return x
        return x * 2

    class Net(nn.Module):
        @torch.jit.ignore
        def a(self):
            return 1

        @torch.jit.ignore(drop=True)
        def b(self):
            return 2

    assert gelu(torch.ones(1)).item() == 2 and (Net().a(), Net().b()) == (1, 2)
    assert isinstance(torch.jit.script(Net()), Net) and torch.jit.annotate(int, 3) == 3
    assert torch.jit.isinstance([1], list[int]) and not torch.jit.isinstance([1], dict[int, int])


def test_isinstance_looks_into_containers():
    from typing import Dict, List, Optional, Tuple, Union

    of = torch.jit.isinstance
    x = torch.ones(1)
    for value, kind in (
        ([x], List[torch.Tensor]),
        ((1, "a"), Tuple[int, str]),
        ({"a": [1]}, Dict[str, List[int]]),
        (None, Optional[int]),
        ([None, 1], List[Optional[int]]),
        (1, Union[int, str]),
        (1, int | None),
        ([1], (List[str], List[int])),
        (1, int),
    ):
        assert of(value, kind), (value, kind)
    for value, kind in (
        ([1], List[float]),
        ((1, "a"), Tuple[int]),
        ({"a": ["b"]}, Dict[str, List[int]]),
        (["a"], Optional[List[int]]),
        ((1, 2), List[int]),
        ({1}, set[int]),
        ([1], (List[str], List[float])),
        (1.5, Union[int, str]),
    ):
        assert not of(value, kind), (value, kind)
    with pytest.warns(UserWarning, match="The inner type of a container is lost"):
        assert of([], List[int])
    with pytest.raises(
        RuntimeError, match=r"use List without a contained type. Please add a contained type, e.g. List\[int\]"
    ):
        of([1], List)
    with pytest.raises(
        RuntimeError, match=r"use dict without contained types. Please add contained type, e.g. dict\[int, int\]"
    ):
        of({}, (int, dict))
    with pytest.raises(RuntimeError, match="must be a type or a tuple of types"):
        of(1, "int")
