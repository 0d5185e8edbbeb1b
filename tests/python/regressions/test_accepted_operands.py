"""Operands that PyTorch accepts, or refuses with another error."""

import pytest

import pytpu as torch


def test_products_of_size_one_keep_the_dtype_of_integers():
    x = torch.ones(2, 1, dtype=torch.int32)
    for equation in ("...i,...i->...", "ij,ij->i", "ij,kj->ik"):
        assert torch.einsum(equation, x, x).dtype is torch.int32


@pytest.mark.parametrize("value", [-1.337 + 0.292j, -2 - 1j, 0.5 - 0.3j, 2 + 0.1j, -0.2 + 1e-3j])
def test_gradient_of_a_complex_acosh(value):
    x = torch.tensor(value, dtype=torch.complex128, requires_grad=True)
    torch.acosh(x).real.backward()
    step = 1e-6
    moved = [torch.acosh(torch.tensor(value + d, dtype=torch.complex128)).real.item() for d in (step, -step)]
    turned = [torch.acosh(torch.tensor(value + d, dtype=torch.complex128)).real.item() for d in (step * 1j, -step * 1j)]
    wanted = complex(moved[0] - moved[1], turned[0] - turned[1]) / (2 * step)
    assert abs(x.grad.item() - wanted) < 1e-7


def test_an_expanded_tensor_is_copied_into_itself():
    x = torch.ones(1).expand(3)
    x.copy_(x)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.copy_(x[:])


@pytest.mark.parametrize("name", ["t_", "squeeze_"])
def test_a_view_of_a_leaf_keeps_its_sizes(name):
    view = torch.rand(3, 3, requires_grad=True)[0:2]
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        getattr(view, name)()
    with torch.no_grad():
        getattr(view, name)()


def test_strides_of_size_one_do_not_matter_to_complex_views():
    x = torch.ones(2, 2, 2, 2, 1).permute(2, 4, 1, 0, 3)
    assert torch.view_as_complex(x).shape == (2, 1, 2, 2)


@pytest.mark.parametrize("function", [torch.remainder, torch.floor_divide, torch.fmod])
def test_divisors_of_another_device_are_refused(function):
    number, device = torch.arange(3, device="tpu"), torch.ones(3, dtype=torch.int64, device="meta")
    for a, b in (
        (number, device),
        (device, number),
        (number.cpu(), device),
        (number, device.new_ones(3, device="cpu")),
    ):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            function(a, b)


def test_a_write_to_the_result_of_erfinv_keeps_its_gradient():
    x = torch.tensor([0.1, -0.5], requires_grad=True)
    y = x.erfinv()
    y.add_(1)
    y.sum().backward()
    assert torch.allclose(x.grad, torch.tensor([0.8932517, 1.1125849]), rtol=1e-5)


def test_products_of_batches_name_themselves():
    x = torch.ones(2, 2, 2, dtype=torch.bool)
    with pytest.raises(NotImplementedError, match="\"bmm\" not implemented for 'Bool'"):
        torch.bmm(x, x)


@pytest.mark.parametrize("name", ["unsqueeze_", "squeeze_", "transpose_", "t_"])
def test_a_kept_gradient_stays_with_a_tensor_that_becomes_its_own_view(name):
    y = torch.rand(2, 3, requires_grad=True) * 1
    y.retain_grad()
    getattr(y, name)(*{"unsqueeze_": (-1,), "transpose_": (0, 1)}.get(name, ()))
    (y * 2).sum().backward()
    assert y.retains_grad and torch.equal(y.grad, torch.full(y.shape, 2.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize(
    ("sizes", "mask", "scores"),
    [
        ((1, 2), (2, 1, 2), "[1, 1]"),
        ((3, 2), (1, 3, 3), "[3, 3]"),
        ((1, 2, 3, 4), (5, 2, 3, 3), "[1, 2, 3, 3]"),
        ((1, 2, 3, 4), (1, 1, 2, 3, 3), "[1, 2, 3, 3]"),
        ((2, 3, 4), (5, 2, 3, 3), "[1, 2, 3, 3]"),
    ],
)
def test_a_mask_may_not_enlarge_the_scores(sizes, mask, scores, dropout, dtype, device):
    q, m = torch.ones(sizes, dtype=dtype, device=device), torch.zeros(mask, dtype=dtype, device=device)
    wanted = f"output with shape {scores} doesn't match the broadcast shape {list(mask)}"
    with pytest.raises(RuntimeError) as raised:
        torch.nn.functional.scaled_dot_product_attention(q, q, q, m, dropout_p=dropout)
    assert wanted in str(raised.value)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_mask_of_four_dimensions_fits_three(dropout, device):
    q = torch.ones(2, 3, 4, device=device)
    mask = torch.zeros(1, 2, 3, 3, device=device)
    assert torch.nn.functional.scaled_dot_product_attention(q, q, q, mask, dropout_p=dropout).shape == (2, 3, 4)
