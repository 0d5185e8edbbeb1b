"""Hooks on leaves that run as soon as the gradient of the leaf is complete."""

import pytest

import pytpu as torch
from pytpu import nn


def test_hooks_of_leaves_run_while_backward_goes_on():
    first, second, order = nn.Linear(2, 3), nn.Linear(3, 4), []
    second.weight.register_post_accumulate_grad_hook(lambda p: order.append(("second", p.grad is not None)))
    first.weight.register_post_accumulate_grad_hook(lambda p: order.append(("first", p.grad is not None)))
    hidden = first(torch.ones(1, 2))
    hidden.register_hook(lambda g: order.append("between"))
    second(hidden).sum().backward()
    assert order == [("second", True), "between", ("first", True)]


def test_a_hook_waits_for_all_uses_of_its_leaf():
    w, seen = torch.ones(3, requires_grad=True), []
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    x = w * 2
    y = (x.exp() * w).sin()
    (y + w).sum().backward()
    v = torch.ones(3, requires_grad=True)
    (((v * 2).exp() * v).sin() + v).sum().backward()
    assert seen == [v.grad.tolist()]


def test_leaves_behind_nodes_without_gradients_are_finished():
    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, None

    w, seen = torch.ones(2, requires_grad=True), []
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    # The second use of `w` gets no gradient.
    First.apply(w * 3, (w * 5).exp()).sum().backward()
    assert seen == [[3.0, 3.0]]


def test_an_optimizer_can_step_within_backward():
    torch.manual_seed(0)
    model, alone = (nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(2))
    alone.load_state_dict(model.state_dict())
    own = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step(p):
        own[p].step()
        own[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(5, 4)
        model(x).square().mean().backward()
        optimizer.zero_grad()
        alone(x).square().mean().backward()
        optimizer.step()
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        assert p.grad is None
        assert torch.equal(p, q)


def test_hooks_of_accumulation_see_gradients_at_once():
    first, second, order = nn.Linear(2, 3), nn.Linear(3, 4), []
    # A view leads to the node that accumulates, as older programs find it.
    node = second.bias.expand_as(second.bias).grad_fn.next_functions[0][0]
    node.register_hook(lambda *grads: order.append("second"))
    hidden = first(torch.ones(1, 2))
    hidden.register_hook(lambda g: order.append("between"))
    second(hidden).sum().backward()
    assert order == ["second", "between"]


def test_a_failing_hook_ends_backward():
    w = torch.ones(2, requires_grad=True)

    def fail(p):
        raise KeyError("no")

    w.register_post_accumulate_grad_hook(fail)
    with pytest.raises(KeyError):
        (w * 2).sum().backward()
