"""Backward was once refused the second time through nodes that save nothing."""

import pytest

import pytpu as torch


def test_backward_runs_twice_through_nodes_that_save_nothing(device):
    p = torch.ones(3, device=device, requires_grad=True)
    shared = torch.cat([p.view(1, 3), p.expand(2, 3)]).sum(0)
    for _ in range(2):
        (shared * shared).sum().backward()
    assert p.grad.tolist() == [36.0] * 3
    product = (p * p).sum()
    product.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        product.backward()
