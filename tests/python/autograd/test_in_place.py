"""Gradients after writes in place, and writes that autograd refuses."""

import pytest

import pytpu as torch


def test_overwritten_elements_have_gradient_zero(device):
    x, y = (torch.ones(2, 3, device=device).requires_grad_() for _ in range(2))
    torch.slice_scatter(x, y, 0, 0, 20, 1).sum().backward()
    assert x.grad.tolist() == [[0.0] * 3] * 2 and y.grad.tolist() == [[1.0] * 3] * 2


def test_leaves_that_are_views_are_not_written(device):
    base = torch.zeros(3, 4, device=device)
    x = base.view(4, 3).requires_grad_()
    for write in (lambda: x.add_(1), lambda: x[0].add_(1), lambda: x.__setitem__(0, 1), lambda: x[:].mul_(2)):
        with pytest.raises(
            RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"
        ):
            write()
    with torch.no_grad():
        x[0] = 1
    base.add_(1)
    assert x.sum().item() == 15 and not base.requires_grad


def test_a_write_of_an_empty_tensor_is_recorded(device):
    nothing = torch.zeros(0, device=device).requires_grad_()
    for write in (
        lambda y: y[1:1].copy_(nothing),
        lambda y: y[1:1].mul_(nothing),
        lambda y: y.__setitem__(slice(1, 1), nothing),
        lambda y: y.view(3, 1).diagonal(1).copy_(nothing),
    ):
        y = torch.arange(3.0, device=device)
        write(y)
        assert y.requires_grad and y.tolist() == [0, 1, 2]
        (y * y).sum().backward()
        assert nothing.grad.shape == (0,)


def test_overwriting_all_of_a_tensor_through_a_view_keeps_its_history(device):
    for write in (
        lambda y: y.__setitem__(slice(0, 2), torch.ones(2, 2, device=device)),
        lambda y: y.__setitem__(None, 2),
        lambda y: y.view(-1).zero_(),
        lambda y: y.t().copy_(3.0),
    ):
        w = torch.ones(2, 2, device=device, requires_grad=True)
        y = w * 1
        write(y)
        y.sum().backward()
        assert w.grad.tolist() == [[0, 0], [0, 0]]


MANY_VIEWS = "This view is the output of a function that returns multiple views"


NO_GRAD_VIEW = "A view was created in no_grad mode and is being modified inplace with grad mode enabled"


@pytest.mark.parametrize(
    "separate", [lambda x: x.chunk(2), lambda x: x.split(2), lambda x: x.split([1, 3]), lambda x: x.unbind(0)]
)
def test_views_that_share_a_node_refuse_in_place_changes(device, separate):
    x = torch.ones(4, 2, device=device, requires_grad=True) * 1
    parts = separate(x)
    for change in (lambda: parts[1].add_(1), lambda: parts[1][:1].mul_(2), lambda: parts[1].__setitem__(0, 3.0)):
        with pytest.raises(RuntimeError, match=MANY_VIEWS):
            change()
    with torch.no_grad():
        parts[0].add_(1)
    assert x[0, 0].item() == 2
    # The write is allowed without gradients, and for parts that do not share a node.
    plain = torch.zeros(4, 2, device=device)
    separate(plain)[0].add_(1)
    assert plain.sum().item() > 0
    y = x.unsafe_chunk(2)[0].add_(1)
    y = y + x.tensor_split(2)[0].mul_(2)
    y.sum().backward()


def test_a_view_made_without_grad_refuses_recorded_changes(device):
    x = torch.ones(4, device=device, requires_grad=True)
    base = x * 1
    with torch.no_grad():
        of_leaf, view = x.view(2, 2), base.view(2, 2)
    for change in (lambda: of_leaf.add_(1), lambda: view.add_(1), lambda: view[0].add_(1)):
        with pytest.raises(RuntimeError, match=NO_GRAD_VIEW):
            change()
    with torch.no_grad():
        view.add_(1)
    assert base.tolist() == [2.0] * 4
    plain = torch.ones(4, device=device)
    with torch.no_grad():
        view = plain.view(2, 2)
    view.add_(1)
    with pytest.raises(RuntimeError, match=NO_GRAD_VIEW):
        view.mul_(x.view(2, 2))
    assert plain.tolist() == [2.0] * 4


@pytest.mark.parametrize(
    "write", [lambda y, b: y.__setitem__(slice(None), b), lambda y, b: y.__setitem__(..., b), lambda y, b: y.copy_(b)]
)
def test_overwritten_tensors_have_gradient_zero(device, write):
    a, b = (torch.ones(3, device=device, requires_grad=True) for _ in range(2))
    y = a * 2
    write(y, b)
    y.sum().backward()
    assert a.grad.tolist() == [0.0] * 3 and b.grad.tolist() == [1.0] * 3
