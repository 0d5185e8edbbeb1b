"""Autograd where PyTorch is particular: functions in place on views, kept gradients, zeros and NaN, attributes of
steps.
"""

import gc

import pytest

import pytpu as torch

# ---- custom functions


class Add(torch.autograd.Function):
    """Adds in place."""

    @staticmethod
    def forward(ctx, a, b):
        a.add_(b)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx, g):
        return g, g


class Double(torch.autograd.Function):
    """Doubles in place."""

    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        a.mul_(2)
        return a

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_function_in_place_on_a_view_reaches_both_inputs(device):
    a = torch.ones(4, device=device, requires_grad=True)
    b = torch.ones(2, device=device, requires_grad=True)
    x = a.clone()
    Add.apply(x.narrow(0, 0, 2), b)
    x.sum().backward()
    assert x.tolist() == [2, 2, 1, 1]
    assert b.grad.tolist() == [1, 1] and a.grad.tolist() == [1, 1, 1, 1]


def test_function_in_place_on_a_view_scales_the_gradient_of_its_part(device):
    a = torch.ones(3, device=device, requires_grad=True)
    x = a.clone()
    Double.apply(x[1:])
    (x * torch.tensor([1.0, 10, 100], device=device)).sum().backward()
    assert a.grad.tolist() == [1, 20, 200]


def test_result_of_a_function_in_place_on_a_view_can_be_differentiated(device):
    a = torch.ones(1, device=device, requires_grad=True)
    x = a.clone()
    Double.apply(x[:]).backward()
    assert a.grad.item() == 2


def test_function_in_place_on_a_view_gives_its_base_a_history():
    x, b = torch.ones(4), torch.ones(2, requires_grad=True)
    Add.apply(x[:2], b)
    assert x.requires_grad
    x.sum().backward()
    assert b.grad.tolist() == [1, 1]


def test_function_in_place_on_a_view_with_several_results_is_refused():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            a.add_(1)
            ctx.mark_dirty(a)
            return a, b * 2

        @staticmethod
        def backward(ctx, g, h):
            return g, h

    x = torch.ones(2, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="your Function cannot return more than one Tensor"):
        Two.apply(x[:1], torch.ones(1))


@pytest.mark.parametrize("result", [lambda x: x.view_as(x), lambda x: x])
def test_writing_to_a_view_that_a_function_returned_is_refused(result):
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return result(x)

        @staticmethod
        def backward(ctx, g):
            return g

    y = Same.apply(torch.ones(2, requires_grad=True).clone())
    for target in (y, y[0]):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            target.add_(1)
    with torch.no_grad():
        y.add_(1)
    assert Same.apply(torch.ones(2)).add_(1).tolist() == [2, 2]


# ---- gradients of tensors that are no leaves


def test_grad_of_a_computed_tensor_can_be_assigned(device):
    x = torch.ones(2, device=device, requires_grad=True)
    p = x.clone()
    p.grad = torch.full((2,), 3.0, device=device)
    assert p.grad.tolist() == [3, 3] and not p.retains_grad
    p.sum().backward()
    assert p.grad.tolist() == [3, 3] and x.grad.tolist() == [1, 1]
    p.grad = None
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert p.grad is None
    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
        p.grad = torch.ones(3, device=device)


def test_assigned_grad_of_a_computed_tensor_is_freed_with_it():
    import weakref

    p, g = torch.ones(2, requires_grad=True).clone(), torch.ones(2)
    p.grad, seen = g, weakref.ref(g)
    del p, g
    gc.collect()
    assert seen() is None


def test_retained_grad_follows_writes_in_place(device):
    a = torch.tensor([1.0], device=device, requires_grad=True).clone()
    a.retain_grad()
    a.mul_(2)
    a.mul_(3)
    (a * 5).sum().backward()
    assert a.grad.item() == 5 and a.retains_grad


def test_given_gradient_of_another_float_dtype_is_cast():
    a = torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(a.diagonal(), a, torch.ones(3))
    assert g.dtype == torch.float64 and torch.equal(g, torch.eye(3, dtype=torch.float64))


def test_data_of_integers_is_refused_for_what_requires_grad():
    x = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="must be floating point or complex dtype"):
        x.data = torch.tensor(3)
    y = torch.tensor(1.0)
    y.data = torch.tensor(3)
    assert y.dtype == torch.int64


def test_numpy_of_what_requires_grad_works_without_recording():
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert x.numpy().tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
        x.numpy()


# ---- views


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


# ---- zeros, NaN, nothing


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


# ---- steps of the graph


def test_what_a_step_keeps_can_be_read():
    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    f = (x * y).grad_fn
    assert f._saved_self is x and f._saved_other is y
    assert (x * 2.0).grad_fn._saved_self is None
    e = x.exp()
    assert torch.equal(e.grad_fn._saved_result, e)
    with pytest.raises(AttributeError):
        f._saved_nothing
    z = x * y
    z.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        z.grad_fn._saved_self


def test_hooks_before_a_step_of_two_results_get_two_gradients():
    x = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    got = []
    var, mean = torch.var_mean(x, dim=0)
    assert var.grad_fn == mean.grad_fn and var.grad_fn.name() == "VarMeanBackward0"
    var.grad_fn.register_prehook(lambda g: got.append(len(g)))
    (var + mean).sum().backward()
    assert got == [2]
    for f in (
        lambda x: torch.var_mean(x, 0),
        lambda x: torch.var_mean(x, (0, 1), correction=0),
        lambda x: torch.var_mean(x, 1, keepdim=True),
    ):
        assert torch.autograd.gradcheck(f, x) and torch.autograd.gradgradcheck(f, x)
