"""`torch.cond`."""

import pytest

import pytpu as torch


def test_a_condition_chooses_a_function(device):
    x = torch.ones(2, device=device)
    for pred, want in ((True, 2), (False, 0), (x.sum() > 1, 2), (x.sum() > 3, 0)):
        assert torch.cond(pred, lambda x: x + 1, lambda x: x - 1, (x,)).tolist() == [want, want]
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor, but got tensor"):
        torch.cond(x > 0, torch.sin, torch.cos, (x,))
