"""Ops that `use_deterministic_algorithms` refuses."""

import pytest

import pytpu as torch
import pytpu.nn.functional as F


def test_functions_without_a_deterministic_form_are_refused():
    put = lambda **k: torch.ones(10).put_(torch.tensor([0, 0]), torch.tensor([0.0, 1.0]), **k)
    unpool = lambda: F.max_unpool2d(torch.ones(1, 1, 1, 2), torch.tensor([[[[0, 1]]]]), 2)
    try:
        torch.use_deterministic_algorithms(True)
        for f in (put, unpool):
            with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
                f()
        put(accumulate=True)
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="put_ does not have a deterministic implementation"):
            put()
        torch.use_deterministic_algorithms(False, warn_only=True)
        assert torch.is_deterministic_algorithms_warn_only_enabled() is True
        put()
    finally:
        torch.use_deterministic_algorithms(False)
