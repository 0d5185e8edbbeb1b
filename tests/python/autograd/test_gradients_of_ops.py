"""Gradients of single ops: second derivatives, NaN, ties, empty inputs."""

import pytest

import pytpu as torch


def test_ties_of_a_median_share_its_gradient(device):
    for median in (torch.median, torch.nanmedian):
        x = torch.tensor([1.0, 2.0, 2.0, 3.0], device=device).requires_grad_()
        y = median(x)
        assert y.item() == 2
        y.backward()
        assert x.grad.tolist() == [0, 0.5, 0.5, 0]


def test_stacked_tensors_have_one_node(device):
    x = torch.ones(2, device=device, requires_grad=True)
    y = torch.stack([x, x.double(), x * 3], dim=1)
    assert y.grad_fn.name() == "StackBackward0" and y.shape == (2, 3) and y.dtype is torch.float64
    assert torch.hstack([x, x]).grad_fn.name() == torch.cat([x, x]).grad_fn.name() == "CatBackward0"
    (y * torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device)).sum().backward()
    assert x.grad.tolist() == [12, 27]


def test_views_of_a_complex_leaf_on_real_memory_require_grad(device):
    x = torch.view_as_complex(torch.randn(5, 10, 2, device=device)).requires_grad_()
    for y in (x.diagonal(), x.as_strided((2,), (1,)), x.unfold(0, 2, 1), x[:5, :5].trace()):
        assert y.requires_grad
    (g,) = torch.autograd.grad(x.diagonal().real.sum(), x)
    assert torch.equal(g, torch.eye(5, 10, device=device, dtype=torch.complex64))


def test_affine_grid_can_be_differentiated_twice_over(device):
    theta = torch.rand(1, 2, 3, dtype=torch.float64, requires_grad=True)
    grid = torch.nn.functional.affine_grid(theta, [1, 1, 2, 2], align_corners=False)
    grid.backward(torch.ones_like(grid))
    first = theta.grad.clone()
    grid.backward(torch.ones_like(grid))
    assert torch.allclose(theta.grad, 2 * first)
    for align in (False, True):
        assert torch.autograd.gradcheck(
            lambda t: torch.nn.functional.affine_grid(t, [1, 1, 2, 3], align_corners=align), theta
        )
        assert torch.autograd.gradgradcheck(
            lambda t: torch.nn.functional.affine_grid(t, [1, 1, 2, 3], align_corners=align), theta
        )


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_of_a_conjugated_leaf(fast):
    x = torch.randn(2, dtype=torch.complex128).conj().requires_grad_()
    before = x.detach().clone()
    assert torch.autograd.gradcheck(torch.mul, (x, torch.randn(2, dtype=torch.complex128)), fast_mode=fast)
    assert torch.allclose(x.detach(), before)


def test_second_derivative_of_cumprod_at_zeros(device):
    for values, want in (
        ([0.0, 2, 3], [[0, 4, 2], [4, 0, 0], [2, 0, 0]]),
        ([2.0, 0, 0], [[0, 1, 0], [1, 0, 2], [0, 2, 0]]),
    ):
        x = torch.tensor(values, device=device, requires_grad=True)
        (g,) = torch.autograd.grad(x.cumprod(0).sum(), x, create_graph=True)
        assert [torch.autograd.grad(v, x, retain_graph=True)[0].tolist() for v in g] == want


def test_second_derivative_of_cumprod_along_dimensions():
    x = torch.tensor([[1.0, 0, 2], [0, 0, 3]], dtype=torch.float64, requires_grad=True)
    for dim in (0, 1):
        assert torch.autograd.gradgradcheck(lambda x: x.cumprod(dim), x)


def test_second_derivative_of_the_determinant_of_singular_matrices(device):
    x = torch.tensor([[1.0, 0], [0, 0]], device=device, requires_grad=True)
    (g,) = torch.autograd.grad(torch.linalg.det(x), x, create_graph=True)
    assert torch.autograd.grad(g[1, 1], x)[0].tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_second_derivative_of_the_determinant_in_batches(dtype):
    a = torch.randn(2, 3, 3, dtype=dtype)
    a[0, 2] = a[0, 0] + a[0, 1]
    a[1, :, 0] = 0
    a.requires_grad_()
    assert torch.autograd.gradcheck(torch.linalg.det, a) and torch.autograd.gradgradcheck(torch.linalg.det, a)


@pytest.mark.parametrize("name", ["max", "min", "median"])
def test_extremes_that_are_nan_share_the_gradient(device, name):
    x = torch.tensor([1.0, float("nan"), float("nan")], device=device, requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad.tolist() == [0, 0.5, 0.5]
    y = torch.tensor([1.0, 3.0, 3.0], device=device, requires_grad=True)
    getattr(y, name)().backward()
    assert y.grad.sum().item() == 1


def test_batch_norm_of_an_empty_batch_gives_zero_gradients(device):
    m = torch.nn.BatchNorm2d(3).to(device)
    x = torch.randn(0, 3, 2, 2, device=device, requires_grad=True)
    m(x).sum().backward()
    assert m.weight.grad.tolist() == [0, 0, 0] and m.bias.grad.tolist() == [0, 0, 0] and x.grad.shape == x.shape


def test_statistics_of_native_layer_norm_are_differentiable(device):
    x = torch.randn(3, 4, dtype=torch.float64)
    w, b = torch.rand(4, dtype=torch.float64) + 0.5, torch.randn(4, dtype=torch.float64)
    inputs = [t.to(device).requires_grad_() for t in (x, w, b)]
    f = lambda x, w, b: torch.native_layer_norm(x, (4,), w, b, 1e-5)
    assert torch.autograd.gradcheck(f, inputs)
    if device == "cpu":
        assert torch.autograd.gradgradcheck(f, inputs)
    (g,) = torch.autograd.grad(f(*inputs)[1].sum(), inputs[0])
    assert torch.allclose(g, torch.full_like(g, 0.25))


def test_weights_of_samples_of_empty_bags_have_a_gradient():
    e = torch.nn.EmbeddingBag(3, 2, mode="sum")
    w = torch.empty(0, requires_grad=True)
    e(torch.empty(0, dtype=torch.long), torch.tensor([0]), w).sum().backward()
    assert w.grad.shape == (0,) and e.weight.grad.abs().sum().item() == 0


@pytest.mark.parametrize(
    "write",
    [
        lambda x: torch.nn.functional.elu_(x, alpha=-2),
        lambda x: torch.nn.functional.leaky_relu_(x, -2),
        lambda x: torch.celu_(x, -2),
        lambda x: torch.rrelu_(x, -2, -1),
    ],
)
def test_backward_of_a_negative_slope_in_place_is_refused(write):
    a = torch.tensor([-1.0, 1.0], requires_grad=True)
    y = write(a.clone())
    with pytest.raises(RuntimeError, match="call out-of-place version"):
        y.sum().backward()
    write(torch.tensor([-1.0, 1.0]))


def test_gradients_with_respect_to_nothing_are_refused():
    y = torch.ones(2, requires_grad=True).sum()
    with pytest.raises(RuntimeError, match="`inputs` argument to `grad\\(\\)` cannot be empty."):
        torch.autograd.grad(y, [])
