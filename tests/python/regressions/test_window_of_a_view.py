"""Hooks and gradients of a view stay when a window on it is differentiated."""

import pytest

import pytpu as torch

VALUES = [[0.3, -1.0], [2.0, 0.5], [1.5, -0.7]]
WINDOWS = {
    "diagonal": lambda y: y.diagonal(0, -2, -1),
    "unfold": lambda y: y.unfold(-1, 1, 1),
    "as_strided": lambda y: y.as_strided(y.shape, y.stride(), y.storage_offset()),
    "linalg.diagonal": lambda y: torch.linalg.diagonal(y, offset=1),
    "diag": lambda y: torch.diag(y[0] if y.dim() > 2 else y),
    "trace": lambda y: torch.trace(y[0] if y.dim() > 2 else y),
}
VIEWS = {
    "product": lambda x: x.mT @ x,
    "transposed": lambda x: (x * 1).mT,
    "narrowed": lambda x: (x * 1).narrow(-2, 1, 2),
    "stepped": lambda x: (x * 1)[..., ::2, :],
    "permuted": lambda x: (x * 1).permute(*range(x.dim() - 2), -1, -2),
    "expanded": lambda x: (x * 1)[..., :1].expand(*x.shape[:-1], 3),
    "einsum": lambda x: torch.einsum("...ij,...ik->...jk", x, x),
    "reshaped": lambda x: (x * 1).reshape(*x.shape[:-2], 2, 3),
    "detached twin": lambda x: (x * 1).view_as(x),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("leading", [0, 1])
def test_a_hook_of_a_view_is_called_by_a_window_on_it(window, view, leading, device):
    make, take = VIEWS[view], WINDOWS[window]

    def gradients(hook):
        x = torch.tensor(VALUES, device=device)
        x = (x.unsqueeze(0) if leading else x).requires_grad_()
        y = make(x)
        y.retain_grad()
        if hook:
            y.register_hook(lambda g: g * 2)
        take(y).sum().backward()
        return x.grad, y.grad

    (plain, at_view), (doubled, hooked) = gradients(False), gradients(True)
    assert at_view is not None and at_view.count_nonzero() > 0
    assert torch.equal(doubled, 2 * plain)
    assert torch.equal(hooked, 2 * at_view)
    x = torch.tensor(VALUES, device=device)
    x = (x.unsqueeze(0) if leading else x).requires_grad_()
    y = make(x)
    (asked,) = torch.autograd.grad(take(y).sum(), y)
    assert torch.equal(asked, at_view)


def test_a_write_through_a_window_on_a_view_is_differentiated(device):
    x = torch.tensor(VALUES, device=device, requires_grad=True)
    y = (x * 1).mT
    y.diagonal().mul_(3)
    y.unfold(1, 2, 1)[0, 0].mul_(5)
    weights = torch.arange(1.0, 7, device=device).reshape(2, 3)
    (y * weights).sum().backward()
    # y is [[15 x00, 5 x10, x20], [x01, 3 x11, x21]].
    assert x.grad.tolist() == [[15.0, 4.0], [10.0, 15.0], [3.0, 6.0]]
