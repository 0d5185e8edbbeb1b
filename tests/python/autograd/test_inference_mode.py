"""Inference tensors are marked, are not saved for backward, and are written only in inference mode."""

import pytest

import pytpu as torch


def test_is_inference_mode_enabled_follows_the_mode():
    assert not torch.is_inference_mode_enabled()
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        with torch.inference_mode(False):
            assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
            assert not torch.ones(1).is_inference()
        assert torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


def test_tensors_made_in_inference_mode_are_inference_tensors(device):
    with torch.inference_mode():
        made = [
            torch.ones(2, device=device),
            torch.tensor([1.0, 2], device=device),
            torch.ones(2, device=device) + 1,
            torch.ones(2, device=device).exp(),
            torch.ones(2, device=device).view(1, 2),
            torch.zeros(3, device=device)[1],
            torch.rand(2, device=device),
            *torch.ones(2, device=device).split(1),
            torch.nn.functional.relu(torch.ones(2, device=device)),
        ]
    assert all(t.is_inference() and torch.is_inference(t) for t in made)
    assert made[4].view(2).is_inference() and made[0].detach().is_inference()
    assert not (made[0] + 1).is_inference() and not made[0].clone().is_inference()


def test_normal_tensors_stay_normal_in_inference_mode(device):
    x = torch.zeros(3, device=device)
    with torch.inference_mode():
        view = x.view(3)
        x.add_(1)
        assert not view.is_inference() and not x[0].is_inference() and not x.detach().is_inference()
        assert not x.contiguous().is_inference()
    view.add_(1)
    assert x.tolist() == [2, 2, 2]


def test_inference_tensors_are_not_saved_for_backward(device):
    with torch.inference_mode():
        c = torch.ones(2, device=device)
    x = torch.ones(2, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * c
    # A sum saves no operand for backward.
    (x + c).sum().backward()
    assert x.grad.tolist() == [1, 1]
    assert (x * c.clone()).requires_grad


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.add_(1),
        lambda t: t.mul_(2.0),
        lambda t: t.relu_(),
        lambda t: t.zero_(),
        lambda t: t.copy_(torch.ones(2)),
        lambda t: t.fill_(2),
        lambda t: t.uniform_(),
        lambda t: t.__setitem__(0, 1),
        lambda t: t.view(-1).add_(1),
        lambda t: torch.add(torch.ones(2), 1, out=t),
    ],
)
def test_inference_tensors_are_written_only_in_inference_mode(write):
    with torch.inference_mode():
        t = torch.ones(2)
        write(t)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        write(t)
    with torch.no_grad(), pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        write(t)


def test_inference_tensors_have_no_version_and_no_gradient():
    with torch.inference_mode():
        t = torch.ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        t._version
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        t.requires_grad_()


def test_inference_mode_records_nothing_even_with_enable_grad():
    x = torch.ones(1, requires_grad=True)
    with torch.inference_mode(), torch.enable_grad():
        assert torch.is_grad_enabled()
        assert not (x * 2).requires_grad
    assert torch.is_grad_enabled() and (x * 2).requires_grad


def test_functions_and_generators_are_decorated():
    @torch.inference_mode()
    def f():
        return torch.ones(1)

    @torch.inference_mode()
    def g():
        yield torch.ones(1)
        yield torch.ones(1)

    assert f().is_inference() and all(t.is_inference() for t in g())
    assert not torch.is_inference_mode_enabled()


def test_an_error_in_the_block_ends_inference_mode():
    with pytest.raises(ZeroDivisionError), torch.inference_mode():
        1 / 0
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


def test_a_model_gives_the_same_results_in_inference_mode(device):
    m = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(inplace=True), torch.nn.LayerNorm(4)).to(device)
    x = torch.randn(2, 3, device=device)
    with torch.inference_mode():
        y = m(x)
    assert torch.equal(y, m(x).detach()) and y.is_inference() and not m[0].weight.is_inference()


def test_views_of_normal_tensors_stay_normal(device):
    leaf = torch.ones(4, requires_grad=True, device=device)
    computed, plain = leaf * 1, torch.ones(4, device=device)
    with torch.inference_mode():
        for x in (leaf, computed):
            for v in (x.view(2, 2), x[0], x[1:], x.unsqueeze(0), x.expand(2, 4), x.chunk(2)[0], x.reshape(4)):
                assert v.requires_grad and v.is_leaf and v.grad_fn is None and not v.is_inference()
            assert not x.detach().requires_grad and not x.data.requires_grad
            assert not (x * 2).requires_grad and (x * 2).is_inference()
        assert not plain[0].requires_grad
        whole = computed.view(4)
    (whole * 2).sum().backward()
    assert whole.grad.tolist() == [2, 2, 2, 2] and leaf.grad is None
    with torch.inference_mode():
        v = computed[1:]
        v.mul_(3)
    assert computed.tolist() == [1, 3, 3, 3]
    with pytest.raises(RuntimeError, match="A view was created in inference mode and is being modified inplace in"):
        v.mul_(2)


@pytest.mark.parametrize(
    ("f", "name", "node"),
    [
        (lambda x: torch.unique(x), "_unique2", "Unique2Backward0"),
        (lambda x: x.unique(return_counts=True)[0], "_unique2", "Unique2Backward0"),
        (lambda x: torch.unique(x, dim=0), "unique_dim", "UniqueDimBackward0"),
        (lambda x: torch.unique_consecutive(x), "unique_consecutive", "UniqueConsecutiveBackward0"),
        (lambda x: torch.unique_consecutive(x, dim=0), "unique_consecutive", "UniqueConsecutiveBackward0"),
    ],
)
def test_unique_values_require_a_gradient_that_is_an_error(device, f, name, node):
    x = torch.tensor([3.0, 1.0, 1.0], device=device)
    assert not f(x).requires_grad
    y = f(x.requires_grad_())
    assert y.requires_grad and type(y.grad_fn).__name__ == node
    with pytest.raises(NotImplementedError, match=f"the derivative for '{name}' is not implemented."):
        y.sum().backward()
    assert not torch.unique(x, return_inverse=True)[1].requires_grad
