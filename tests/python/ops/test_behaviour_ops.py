"""Ops where PyTorch is particular: old forms of calls, dtypes, refusals, warnings."""

import numpy as np
import pytest

import pytpu as torch
import pytpu.nn.functional as F

# ---- numbers between tensors, an old form

X, M, B = torch.ones(2), torch.ones(2, 2), torch.ones(2, 2, 2)


@pytest.mark.parametrize(
    "call, today",
    [
        (lambda: torch.add(X, 0.5, X), lambda: torch.add(X, X, alpha=0.5)),
        (lambda: X.add(0.5, X), lambda: X.add(X, alpha=0.5)),
        (lambda: X.clone().add_(0.5, X), lambda: X.clone().add_(X, alpha=0.5)),
        (lambda: torch.sub(X, 3, X), lambda: torch.sub(X, X, alpha=3)),
        (lambda: X.clone().sub_(3, X), lambda: X.clone().sub_(X, alpha=3)),
        (lambda: torch.addcmul(X, 0.5, X, X), lambda: torch.addcmul(X, X, X, value=0.5)),
        (lambda: X.clone().addcmul_(0.5, X, X), lambda: X.clone().addcmul_(X, X, value=0.5)),
        (lambda: X.clone().addcdiv_(-0.5, X, X), lambda: X.clone().addcdiv_(X, X, value=-0.5)),
        (lambda: torch.addmm(2, M, 3, M, M), lambda: torch.addmm(M, M, M, beta=2, alpha=3)),
        (lambda: torch.addmm(2, M, M, M), lambda: torch.addmm(M, M, M, beta=2)),
        (lambda: M.addmm(2, 3, M, M), lambda: M.addmm(M, M, beta=2, alpha=3)),
        (lambda: M.clone().addmm_(2, M, M), lambda: M.clone().addmm_(M, M, beta=2)),
        (lambda: torch.addmv(2, X, 3, M, X), lambda: torch.addmv(X, M, X, beta=2, alpha=3)),
        (lambda: M.addr(2, 3, X, X), lambda: M.addr(X, X, beta=2, alpha=3)),
        (lambda: torch.addbmm(2, M, 3, B, B), lambda: torch.addbmm(M, B, B, beta=2, alpha=3)),
        (lambda: B.clone().baddbmm_(2, 3, B, B), lambda: B.clone().baddbmm_(B, B, beta=2, alpha=3)),
        (lambda: torch.add(X, 0.5, X, out=torch.empty(2)), lambda: torch.add(X, X, alpha=0.5)),
        (lambda: torch.addcmul(X, torch.tensor(0.5), X, X), lambda: torch.addcmul(X, X, X, value=0.5)),
    ],
)
def test_numbers_between_tensors_are_taken(call, today):
    assert torch.equal(call(), today())


def test_numbers_between_tensors_are_called_deprecated_once():
    import subprocess
    import sys

    program = (
        "import warnings, pytpu as torch\n"
        "warnings.simplefilter('always')\n"
        "x = torch.ones(2); x.add_(0.5, x); x.add_(0.5, x); x.sub_(1, x)"
    )
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert text.count("This overload of add_ is deprecated:\n\tadd_(Number alpha, Tensor other)") == 1
    assert "\tadd_(Tensor other, *, Number alpha = 1)" in text and "sub_" not in text


def test_numbers_elsewhere_are_refused_as_before():
    for call in (
        lambda: X.add(X, 0.5),
        lambda: torch.true_divide(X, 0.5, X),
        lambda: torch.addmm(M, M, M, 2),
        lambda: torch.add(X, 1, 2, X),
    ):
        with pytest.raises(TypeError):
            call()


# ---- results


def test_in_place_functions_of_lists_give_the_list_back():
    xs = [torch.full((2,), -1.0), torch.full((1,), -2.0)]
    assert torch._foreach_abs_(xs) is xs and xs[1].item() == 2
    assert torch._foreach_add_(xs, 1) is xs
    assert torch._foreach_addcmul_(xs, xs, xs, 0.5) is xs
    pair = tuple(xs)
    assert torch._foreach_mul_(pair, [1, 2]) is pair


def test_extremes_of_complex_lists_are_refused():
    xs = [torch.ones(1, dtype=torch.complex64)]
    with pytest.raises(NotImplementedError, match="\"maximum_cpu\" not implemented for 'ComplexFloat'"):
        torch._foreach_maximum(xs, xs)


def test_bounds_without_dimensions_promote(device):
    one = lambda v, d: torch.tensor(v, dtype=d, device=device)
    assert torch.clamp_min(one(True, torch.bool), one(1.5, torch.float64)).dtype == torch.float64
    assert torch.clamp_min(one(1, torch.int32), one(5, torch.int64)).dtype == torch.int64
    assert torch.clamp_max(one(1, torch.int32), one(2.0, torch.float32)).dtype == torch.float32
    assert torch.clamp(one(True, torch.bool), one(1.5, torch.float64)).item() == 1.5
    assert torch.clamp_min(torch.ones(2, dtype=torch.int32, device=device), one(5, torch.int64)).dtype == torch.int32
    assert torch.clamp(torch.ones(2, device=device), 0, 0.5).tolist() == [0.5, 0.5]


def test_a_byte_is_a_mask_and_no_index(device):
    a = torch.tensor([1, 2, 3], device=device)
    on, off = (torch.tensor(v, dtype=torch.uint8, device=device) for v in (1, 0))
    assert a[on].tolist() == [[1, 2, 3]] and a[off].shape == (0, 3) and torch.tensor(1)[on].shape == (1,)
    b = torch.zeros(2, 2, device=device)
    b[off] = 5
    assert b.sum().item() == 0
    b[on] = 5
    assert b.sum().item() == 20
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        assert a[torch.tensor([1, 0, 1], dtype=torch.uint8, device=device)].tolist() == [1, 3]
    assert [10, 20][on] == 20


def test_search_sees_negated_values(device):
    n = torch.tensor([1 + 2.5j, 1 - 3j], device=device).conj().imag
    rows = torch.tensor([-3.0, -2, 0, 2, 3], device=device)
    for f in (lambda v: torch.searchsorted(rows, v), lambda v: torch.bucketize(v, rows)):
        assert f(n).tolist() == f(n.clone()).tolist() == [1, 4]
    assert (
        torch.searchsorted(
            torch.tensor([-1j, 1j], device=device).conj().imag.flip(0), torch.tensor([0.0], device=device)
        ).item()
        == 1
    )


def test_similarity_promotes(device):
    a, b = torch.tensor([3, 4], dtype=torch.int8, device=device), torch.tensor([3.0, 4.0], device=device)
    assert abs(F.cosine_similarity(a, b, dim=-1).item() - 1) < 1e-6
    with pytest.raises(RuntimeError, match="expected common dtype to be floating point, yet common dtype is Char"):
        F.cosine_similarity(a, a, dim=-1)


def test_condition_of_a_singular_matrix_is_infinite(device):
    a = torch.tensor([[1.0, 0], [0, 0]], device=device)
    assert [torch.linalg.cond(a, p).item() for p in ("nuc", "fro", 1, 2)] == [float("inf")] * 4
    assert abs(torch.linalg.cond(torch.diag(torch.tensor([1.0, 4])), "nuc").item() - 6.25) < 1e-5


def test_roll_without_dimensions(device):
    x = torch.arange(4, device=device).reshape(2, 2)
    assert x.roll(1, dims=None).tolist() == torch.roll(x, 1).tolist() == [[3, 0], [1, 2]]


def test_vectors_without_elements_are_joined_along_any_dimension():
    e = torch.randn(0)
    assert torch.cat([e, e], dim=1).shape == torch.cat([e], dim=-2).shape == (0,)
    assert torch.cat([e, torch.ones(2, 3)], dim=1).shape == (2, 3)


def test_overload_takes_an_argument_named_self():
    assert torch.ops.aten.reshape.default(self=torch.rand(1, 2), shape=[2]).shape == (2,)
    assert torch.ops.aten.relu(self=torch.tensor([-1.0])).item() == 0


# ---- sizes of zero


def test_pools_of_no_channels_or_to_no_results():
    assert torch.nn.AdaptiveAvgPool1d(5)(torch.ones(0, 10)).shape == (0, 5)
    assert torch.nn.AdaptiveMaxPool2d(5)(torch.ones(0, 10, 10)).shape == (0, 5, 5)
    assert torch.nn.FractionalMaxPool2d([2, 2], output_size=[0, 1])(torch.rand(1, 1, 8, 8)).shape == (1, 1, 0, 1)
    assert torch.nn.FractionalMaxPool3d(2, output_size=[0, 1, 1])(torch.rand(1, 1, 8, 8, 8)).shape == (1, 1, 0, 1, 1)
    with pytest.raises(RuntimeError, match="non-zero size for non-batch dimensions"):
        torch.nn.AdaptiveAvgPool1d(5)(torch.ones(3, 0))


def test_padding_of_no_channels_is_refused():
    with pytest.raises(RuntimeError, match="Expected 2D or 3D \\(batch mode\\) tensor with possibly 0 batch size"):
        torch.nn.ReflectionPad1d(2)(torch.randn(3, 0, 10))
    with pytest.raises(RuntimeError, match="Expected 3D or 4D"):
        torch.nn.ReplicationPad2d(2)(torch.randn(3, 0, 10, 10))
    assert torch.nn.ReflectionPad1d(2)(torch.randn(0, 3, 10)).shape == (0, 3, 14)
    assert torch.nn.CircularPad1d(2)(torch.randn(3, 0, 10)).shape == (3, 0, 14)


# ---- refusals


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: torch.addmm(M.double(), M, M), "self and mat2 must have the same dtype, but got Double and Float"),
        (lambda: torch.addbmm(M.double(), B, B), "self and mat2 must have the same dtype, but got Double and Float"),
        (
            lambda: torch.addmv(X.double(), M, X),
            "addmv input tensors must have the same dtype, but got Double, Float, and Float",
        ),
        (lambda: torch.baddbmm(B.half(), B, B), "Input dtypes must be the same"),
        (lambda: torch.addr(M, X, X, alpha=2j), "value cannot be converted to type float without overflow"),
        (lambda: torch.linalg.vector_norm(X, 1j), "Expected a non-complex scalar as the order of norm"),
        (lambda: torch.linalg.norm(X, 1j), "Expected a non-complex scalar as the order of norm"),
        (
            lambda: torch.meshgrid(torch.tensor([1]), X, indexing="ij"),
            "meshgrid expects all tensors to have the same dtype",
        ),
        (
            lambda: torch.gradient(M, spacing=(X,)),
            "expected spacing to be unspecified, a scalar, or a list of length equal to",
        ),
        (lambda: torch.gradient(M, spacing=(1.0,)), "but got a list of length 1"),
        (lambda: M.diff(prepend=X), "diff expects prepend or append to be the same dimension as input"),
        (
            lambda: F.max_unpool1d(torch.ones(1, 1, 2, dtype=torch.int32), torch.tensor([[[0, 1]]]), 2),
            "\"max_unpool2d\" not implemented for 'Int'",
        ),
        (lambda: torch.linalg.multi_dot([M]), "expected at least 2 tensors"),
    ],
)
def test_refused_as_in_pytorch(call, text):
    with pytest.raises(RuntimeError) as e:
        call()
    assert text in str(e.value)


def test_products_of_one_complex_operand_are_complex():
    assert torch.addr(M, X * (1 + 2j), X).dtype == torch.complex64
    assert torch.addr(M.int(), X, X).dtype == torch.float32


def test_sparse_gradients_are_refused_in_words():
    weight, index = torch.ones(3, 2, requires_grad=True), torch.tensor([1])
    with pytest.raises(NotImplementedError, match="no sparse tensors yet"):
        F.embedding(index, weight, sparse=True)
    with pytest.raises(NotImplementedError, match="no sparse tensors yet"):
        F.embedding_bag(index, weight, torch.tensor([0]), sparse=True)
    with torch.no_grad():
        assert F.embedding(index, weight, sparse=True).tolist() == [[1, 1]]
    for make in (torch.nn.Embedding, torch.nn.EmbeddingBag):
        with pytest.raises(NotImplementedError, match="no sparse tensors yet"):
            make(3, 2, sparse=True)


def test_bags_with_a_bound_take_narrow_indices():
    e = torch.nn.EmbeddingBag(5, 2, max_norm=1.0)
    torch.nn.init.constant_(e.weight, 3.0)
    y = e(torch.tensor([1, 2], dtype=torch.int32), torch.tensor([0], dtype=torch.int32))
    assert y.shape == (1, 2) and e.weight[1].norm().item() <= 1 + 1e-5


def test_functions_that_pytorch_has_in_no_deterministic_form_are_refused():
    put = lambda **k: torch.ones(10).put_(torch.tensor([0, 0]), torch.tensor([0.0, 1.0]), **k)
    unpool = lambda: F.max_unpool2d(torch.ones(1, 1, 1, 2), torch.tensor([[[[0, 1]]]]), 2)
    try:
        torch.use_deterministic_algorithms(True)
        for f in (put, unpool):
            with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
                f()
        put(accumulate=True)
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="put_ does not have a deterministic implementation"):
            put()
        torch.use_deterministic_algorithms(False, warn_only=True)
        assert torch.is_deterministic_algorithms_warn_only_enabled() is True
        put()
    finally:
        torch.use_deterministic_algorithms(False)


def test_short_transforms_without_a_window_warn():
    import subprocess
    import sys

    program = "import pytpu as torch; torch.stft(torch.ones(16), 8, return_complex=True)"
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert "A window was not provided." in text


# ---- fake quantisation


def _quantised(x, scale, zero, low, high, late=False):
    v = x.astype(np.float32) * (np.float32(1) / scale.astype(np.float32))
    q = np.rint(v + zero) if late else np.rint(v) + zero
    inside = (q >= low) & (q <= high)
    return (np.clip(q, low, high) - zero) * scale.astype(np.float32), inside


def test_fake_quantisation_of_a_tensor(device):
    x = (torch.arange(-40, 41) * 0.05).to(device)
    for args in ((0.1, 2, -8, 7), (torch.tensor(0.1), torch.tensor(2), -8, 7)):
        v = x.clone().requires_grad_()
        y = torch.fake_quantize_per_tensor_affine(v, *args)
        want, inside = _quantised(x.cpu().numpy(), np.float32(0.1), 2, -8, 7)
        assert np.allclose(y.detach().cpu().numpy(), want, atol=1e-6)
        y.backward(torch.full_like(y, 3))
        assert v.grad.tolist() == (inside * 3.0).tolist()


def test_fake_quantisation_of_nan_and_infinity(device):
    x = torch.tensor([float("nan"), float("inf"), -float("inf")], device=device)
    y = torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -8, 7)
    assert y.tolist() == [-4, 3.5, -4]


def test_fake_quantisation_of_channels(device):
    x = (torch.arange(-24, 24) * 0.05).reshape(2, 3, 8)
    scale = torch.tensor([0.1, 0.2, 0.3])
    for zero, late in ((torch.tensor([0, 5, 10], dtype=torch.int32), False), (torch.tensor([0.5, 5.0, 9.5]), True)):
        v = x.to(device).clone().requires_grad_()
        y = torch.fake_quantize_per_channel_affine(v, scale.to(device), zero.to(device), 1, 0, 15)
        s, z = scale.numpy().reshape(3, 1), zero.numpy().reshape(3, 1).astype(np.float32)
        want, inside = _quantised(x.numpy(), s, z, 0, 15, late)
        assert np.allclose(y.detach().cpu().numpy(), want, atol=1e-6)
        y.sum().backward()
        assert v.grad.cpu().numpy().tolist() == inside.astype(float).tolist()


@pytest.mark.parametrize(
    "call, text",
    [
        (
            lambda: torch.fake_quantize_per_tensor_affine(X, 0.1, 300, 0, 255),
            "`zero_point` must be between `quant_min` and `quant_max`.",
        ),
        (lambda: torch.fake_quantize_per_tensor_affine(X, 0.1, 0, 5, -5), "`quant_min` should be less than or"),
        (lambda: torch.fake_quantize_per_tensor_affine(X.int(), 0.1, 0, 0, 5), "not implemented for 'Int'"),
        (
            lambda: torch.fake_quantize_per_channel_affine(M, X, X.long(), 0, 0, 15),
            "Zero-point must be Int32, Float or Half, found Long",
        ),
        (
            lambda: torch.fake_quantize_per_channel_affine(M, X.double(), X.int(), 0, 0, 15),
            "Scale must be Float or BFloat16, found Double",
        ),
        (
            lambda: torch.fake_quantize_per_channel_affine(M, X, X.int()[:1], 0, 0, 15),
            "need to have the same dimensions",
        ),
        (
            lambda: torch.fake_quantize_per_channel_affine(torch.ones(2, 3), X, X.int(), 1, 0, 15),
            "are not consistent with input tensor",
        ),
    ],
)
def test_fake_quantisation_refuses(call, text):
    with pytest.raises(RuntimeError) as e:
        call()
    assert text in str(e.value)
