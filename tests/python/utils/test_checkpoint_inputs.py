"""A change in place of the inputs of a checkpoint without reentry is an error, as for saved tensors."""

import pytest

import pytpu as torch
from pytpu.utils.checkpoint import checkpoint

MODIFIED = "modified by an inplace operation"


def _leaf(device):
    return torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)


@pytest.mark.parametrize(
    "write", [lambda v: v.mul_(2), lambda v: v.detach().mul_(2), lambda v: v[:2].zero_()], ids=["op", "alias", "view"]
)
@pytest.mark.parametrize("needs_grad", [True, False])
def test_a_changed_input_is_an_error(device, write, needs_grad):
    x = _leaf(device)
    v = x * -1 if needs_grad else torch.ones(3, device=device)
    y = checkpoint(lambda a, b: a * b, x, v, use_reentrant=False)
    write(v)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_a_residual_sum_in_place_is_an_error(device):
    h = _leaf(device) * 1
    h += checkpoint(lambda t: t * t, h, use_reentrant=False)
    with pytest.raises(RuntimeError, match=MODIFIED):
        h.sum().backward()


def test_a_step_between_forward_and_backward_is_an_error(device):
    x, i = _leaf(device), torch.tensor([0, 1], device=device)
    y = checkpoint(lambda t: t * t, x, use_reentrant=False)
    z = checkpoint(lambda t, i: (t * t)[i], x, i, use_reentrant=False)
    i.fill_(2)
    with pytest.raises(RuntimeError, match=MODIFIED):
        z.sum().backward()
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_unchanged_inputs_and_other_arguments_work(device):
    x = _leaf(device)
    h = x * 1

    def inner(t):
        return checkpoint(lambda u: u * u, t.sin(), use_reentrant=False)

    y = checkpoint(inner, h, use_reentrant=False)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    expected = 2 * torch.autograd.grad((_sin2 := x.sin() ** 2).sum(), x)[0]
    assert torch.allclose(x.grad, expected) and _sin2.shape == x.shape
    with torch.no_grad():
        y = checkpoint(lambda t, scale, k=None: t * scale * k, h, 2.0, k=3, use_reentrant=False)
    assert y.tolist() == [6, 12, 18]


def test_hooks_on_saved_tensors_see_the_inputs(device):
    x = _leaf(device)
    log = []
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda t: log.append("pack") or t, lambda t: log.append("unpack") or t
    )
    with hooks:
        y = checkpoint(lambda t: t * t, x * 1, use_reentrant=False)
    y.sum().backward()
    assert x.grad.tolist() == [2, 4, 6] and log == ["pack", "unpack"]
