"""Operators of aten for gradients give what backward gives."""

import pytest

import pytpu as torch
from pytpu.nn import functional as F

aten = torch.ops.aten


def numbers(*shape):
    n = torch.Size(shape).numel()
    return (torch.arange(1.0, n + 1) * 0.37).sin().reshape(shape)


def gradients(function, grad, *operands):
    leaves = [x.clone().requires_grad_() for x in operands]
    return torch.autograd.grad(function(*leaves), leaves, grad)


X, G = numbers(3, 4), numbers(3, 4).cos()
CLASSES = torch.tensor([1, 3, 0])
# The operator with its arguments, and the function whose gradient it is.
CASES = {
    "gelu": (lambda: aten.gelu_backward.default(G, X), F.gelu),
    "gelu tanh": (
        lambda: aten.gelu_backward.default(G, X, approximate="tanh"),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    "silu": (lambda: aten.silu_backward.default(G, X), F.silu),
    "threshold": (lambda: aten.threshold_backward.default(G, X, 0), F.relu),
    "sigmoid": (lambda: aten.sigmoid_backward.default(G, X.sigmoid()), torch.sigmoid),
    "tanh": (lambda: aten.tanh_backward.default(G, X.tanh()), torch.tanh),
    "select": (lambda: aten.select_backward.default(G[0], [3, 4], 0, 2), lambda x: x.select(0, 2)),
    "slice": (lambda: aten.slice_backward.default(G[:, :2], [3, 4], 1, 0, 4, 2), lambda x: x[:, 0:4:2]),
}
GRADS = {"select": G[0], "slice": G[:, :2]}


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_of_one_operand(name):
    operator, function = CASES[name]
    torch.testing.assert_close(operator(), gradients(function, GRADS.get(name, G), X)[0])


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_of_nll_loss(reduction, weighted):
    classes = torch.tensor([1, -100, 3])
    weight = numbers(4).abs() if weighted else None
    kind = ("none", "mean", "sum")[reduction]
    grad = numbers(3) if reduction == 0 else torch.tensor(0.7)
    _, total = aten.nll_loss_forward.default(X, classes, weight, reduction, -100)
    found = aten.nll_loss_backward.default(grad, X, classes, weight, reduction, -100, total)
    torch.testing.assert_close(found, gradients(lambda x: F.nll_loss(x, classes, weight, reduction=kind), grad, X)[0])


@pytest.mark.parametrize("transposed", [False, True])
def test_the_gradients_of_a_convolution(transposed):
    x, w, bias = numbers(2, 3, 6, 6), numbers(3, 3, 3, 3), numbers(3)
    call = (F.conv_transpose2d if transposed else F.conv2d, [2, 2], [1, 1])
    y = call[0](x, w, bias, stride=2, padding=1)
    grad = numbers(*y.shape)
    settings = ([2, 2], [1, 1], [1, 1], transposed, [0, 0], 1)
    found = aten.convolution_backward.default(grad, x, w, [3], *settings, [True, True, True])
    wanted = gradients(lambda x, w, b: call[0](x, w, b, stride=2, padding=1), grad, x, w, bias)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    only = aten.convolution_backward.default(grad, x, w, [3], *settings, [False, True, False])
    assert only[0] is None and only[2] is None
    torch.testing.assert_close(only[1], wanted[1])


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_the_gradients_of_layer_norm(eps):
    w, b = numbers(4), numbers(4).cos()
    _, mean, rstd = aten.native_layer_norm.default(X, [4], w, b, eps)
    found = aten.native_layer_norm_backward.default(G, X, [4], mean, rstd, w, b, [True, True, True])
    for one, other in zip(found, gradients(lambda x, w, b: F.layer_norm(x, (4,), w, b, eps), G, X, w, b), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("padding, by_freq", [(-1, False), (1, False), (-1, True)])
def test_the_gradient_of_an_embedding(padding, by_freq):
    indices = torch.tensor([[0, 1], [1, 2]])
    grad = numbers(2, 2, 3)
    found = aten.embedding_dense_backward.default(grad, indices, 4, padding, by_freq)
    row = None if padding < 0 else padding
    wanted = gradients(lambda w: F.embedding(indices, w, row, scale_grad_by_freq=by_freq), grad, numbers(4, 3))
    torch.testing.assert_close(found, wanted[0])
