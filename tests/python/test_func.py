"""Derivatives of functions as functions, against formulas."""

import pytest

import pytpu as torch
from pytpu.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)


@pytest.fixture
def x(device):
    return torch.tensor([1.0, 2.0, 3.0], device=device)


def cubes(x):
    return (x**3).sum()


def same(found, expected):
    torch.testing.assert_close(found.cpu(), torch.tensor(expected), rtol=1e-5, atol=1e-6)


def test_gradients(x):
    same(grad(cubes)(x), [3.0, 12.0, 27.0])
    same(grad(lambda x: grad(cubes)(x).sum())(x), [6.0, 12.0, 18.0])
    found, value = grad_and_value(cubes)(x)
    same(found, [3.0, 12.0, 27.0])
    assert value.item() == 36 and not value.requires_grad and not found.requires_grad
    both = grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x + 1)
    same(both[0], [2.0, 3.0, 4.0])
    same(both[1], [1.0, 2.0, 3.0])
    found, aux = grad(lambda d: ((d["a"] ** 2).sum(), d["a"] + 1), has_aux=True)({"a": x})
    same(found["a"], [2.0, 4.0, 6.0])
    same(aux, [2.0, 3.0, 4.0])
    same(grad(lambda x: torch.ones((), device=x.device))(x), [0.0, 0.0, 0.0])


def test_outer_gradients_reach_captured_tensors(x):
    w = torch.tensor(2.0, device=x.device, requires_grad=True)
    found = grad(lambda x: (w * x**2).sum())(x)
    assert found.requires_grad
    found.sum().backward()
    assert w.grad.item() == 12
    leaf = x.clone().requires_grad_()
    same(torch.autograd.grad(grad(cubes)(leaf).sum(), leaf)[0], [6.0, 12.0, 18.0])
    with torch.no_grad():
        assert not grad(cubes)(leaf).requires_grad
    assert leaf.grad is None and not x.requires_grad


def test_products_with_jacobians(x):
    output, pull = vjp(lambda x, y: (x * y, x + y), x, x + 1)
    same(output[0], [2.0, 6.0, 12.0])
    ones = torch.ones_like(x)
    by_x, by_y = pull((ones, 2 * ones))
    same(by_x, [4.0, 5.0, 6.0])
    same(by_y, [3.0, 4.0, 5.0])
    output, pushed = jvp(lambda x, y: {"p": x * y}, (x, x + 1), (ones, 0 * ones))
    same(output["p"], [2.0, 6.0, 12.0])
    same(pushed["p"], [2.0, 3.0, 4.0])
    output, push = linearize(lambda x: x**2, x)
    same(push(ones), [2.0, 4.0, 6.0])


def test_jacobians(x):
    for jacobian in (jacrev, jacfwd):
        same(jacobian(lambda x: x**2)(x), [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]])
        found = jacobian(lambda x, y: torch.outer(x, y), argnums=(0, 1))(x, x[:2])
        assert [f.shape for f in found] == [(3, 2, 3), (3, 2, 2)]
        assert found[0][1, 1].tolist() == [0.0, 2.0, 0.0]
    same(hessian(cubes)(x), [[6.0, 0.0, 0.0], [0.0, 12.0, 0.0], [0.0, 0.0, 18.0]])
    found, aux = jacrev(lambda x: ({"s": x.sum()}, x), has_aux=True)(x)
    same(found["s"], [1.0, 1.0, 1.0])
    assert not aux.requires_grad


def test_modules_and_inner_steps(x):
    net = torch.nn.Linear(3, 1, bias=False).to(x.device)
    parameters = {"weight": torch.ones(1, 3, device=x.device)}
    found = grad(lambda p: functional_call(net, p, (x,)).square().sum())(parameters)
    same(found["weight"], [[12.0, 24.0, 36.0]])

    def stepped(p):
        return p - 0.1 * grad(lambda p: ((p * x) ** 2).sum())(p)

    # The derivative of one step is 1 - 0.2 x^2.
    same(grad(lambda p: stepped(p).sum())(x), [0.8, 0.2, -0.8])


def test_mistakes(x):
    for call, kind, message in (
        (lambda: grad(lambda x: x)(x), RuntimeError, "to return a scalar Tensor, got tensor with 1 dims"),
        (lambda: grad(lambda x: 3.0)(x), RuntimeError, "to return a Tensor, got <class 'float'>"),
        (lambda: grad(cubes)(3.0), ValueError, "Thing passed to transform API must be Tensor, got <class 'float'>"),
        (lambda: grad(cubes, argnums=2)(x), RuntimeError, "Got argnum=2, but only 1 positional inputs"),
        (lambda: grad(cubes, argnums="a")(x), RuntimeError, "argnums must be int or Tuple"),
        (lambda: grad(cubes, has_aux=True)(x), RuntimeError, "output of function f should be a tuple"),
        (lambda: grad(cubes)(torch.tensor([1, 2])), RuntimeError, "only Tensors of floating point dtype"),
        (lambda: vjp(torch.sin, x)[1](x[:2]), RuntimeError, "Mismatch in shape: grad_output"),
        (lambda: jvp(torch.sin, (x,), (x[:2],)), RuntimeError, "forward gradient that has a different size"),
        (lambda: jvp(torch.sin, x, x), RuntimeError, "Expected primals to be a tuple"),
        (lambda: jvp(torch.sin, (x,), (x, x)), RuntimeError, "to have the same python structure"),
        (lambda: jacrev(lambda x: 3)(x), RuntimeError, "to return only tensors, got unsupported type <class 'int'>"),
    ):
        with pytest.raises(kind, match=message):
            call()


TRANSFORMS = {
    "grad": lambda x: torch.func.grad(torch.cos)(x),
    "grad_and_value": lambda x: torch.func.grad_and_value(torch.cos)(x)[0],
    "grad of grad": lambda x: -torch.func.grad(torch.func.grad(torch.cos))(torch.pi / 2 - x),
    "jvp": lambda x: torch.func.jvp(torch.cos, (x,), (torch.ones_like(x),))[1],
    "vjp": lambda x: torch.func.vjp(torch.cos, x)[1](torch.ones_like(x))[0],
    "jacrev": lambda x: torch.func.jacrev(torch.cos)(x),
    "jacfwd": lambda x: torch.func.jacfwd(torch.cos)(x),
    "hessian": lambda x: torch.func.hessian(torch.sin)(x),
    "linearize": lambda x: torch.func.linearize(torch.cos, x)[1](torch.ones_like(x)),
    "argument outside": lambda x: torch.func.grad(lambda y: torch.cos(y) + 0 * x)(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_differentiate_in_every_mode(device, name):
    f = TRANSFORMS[name]

    class Inside(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return f(x)

        @staticmethod
        def backward(ctx, g):
            return g

    want = f(torch.tensor(0.5, device=device)).item()
    assert want == pytest.approx(-0.47942555 if name != "grad of grad" else 0.47942555, abs=1e-6)
    learnt = torch.tensor(0.5, device=device, requires_grad=True)
    assert Inside.apply(learnt).item() == pytest.approx(want, abs=1e-6)
    with torch.no_grad():
        result = f(learnt)
        assert result.item() == pytest.approx(want, abs=1e-6) and not result.requires_grad
    with torch.inference_mode():
        made = torch.tensor(0.5, device=device)
        assert f(made).item() == pytest.approx(want, abs=1e-6)
        assert f(learnt).item() == pytest.approx(want, abs=1e-6)
    if name != "argument outside":
        assert f(made).item() == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_vjp_is_made_in_one_mode_and_called_in_another(device, mode):
    x, one = torch.tensor(3.0, device=device), torch.tensor(1.0, device=device)
    with mode():
        _, pull = torch.func.vjp(lambda x: x**2, x)
    assert pull(one)[0].item() == 6
    _, pull = torch.func.vjp(lambda x: x**2, x)
    with mode():
        assert pull(torch.tensor(1.0, device=device))[0].item() == 6
        m = torch.nn.Linear(2, 1, device=device)
        params = dict(m.named_parameters())
        g = torch.func.grad(lambda p: torch.func.functional_call(m, p, (torch.ones(1, 2, device=device),)).sum())(
            params
        )
        assert g["weight"].tolist() == [[1, 1]]
