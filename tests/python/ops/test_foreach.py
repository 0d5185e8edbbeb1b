"""`torch._foreach_*`: each op over lists equals the op on each tensor, also in place."""

import pytest

import pytpu as torch

SIZES = ((2, 3), (4,), ())


def tensors(device, low=0.2, high=0.9, dtype=torch.float32):
    return [(torch.rand(size) * (high - low) + low).to(dtype).to(device) for size in SIZES]


def same(got, want):
    assert isinstance(got, (tuple, list)) and len(got) == len(want)
    for a, b in zip(got, want):
        assert a.dtype == b.dtype and a.device == b.device and torch.equal(a.cpu(), b.cpu())


UNARY = [name for name in dir(torch) if name.startswith("_foreach_") and f"{name}_" in dir(torch)]


TWO_LISTS = {"add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max", "maximum", "minimum"}


THREE_LISTS = {"addcdiv", "addcmul", "lerp"}


def test_every_foreach_op_exists():
    ops = {name.removeprefix("_foreach_") for name in UNARY}
    assert len(ops) == 42 and ops > TWO_LISTS | THREE_LISTS


def plain(name):
    """Return the op on one tensor for the name of an op on lists."""
    bound = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(name, name)
    return lambda x, *rest, **kw: getattr(torch, bound)(x, *rest, **kw)


@pytest.mark.parametrize("name", [n.removeprefix("_foreach_") for n in UNARY])
def test_plain_and_in_place_forms_equal_the_op_on_each_tensor(name, device):
    xs, ys, zs = tensors(device), tensors(device), tensors(device)
    numbers = [0.5, 2, 1.25]
    if name in TWO_LISTS:
        calls = [((ys,), lambda k: (ys[k],)), ((0.5,), lambda k: (0.5,)), ((numbers,), lambda k: (numbers[k],))]
    elif name == "lerp":
        calls = [
            ((ys, zs), lambda k: (ys[k], zs[k])),
            ((ys, 0.5), lambda k: (ys[k], 0.5)),
            ((ys, numbers), lambda k: (ys[k], numbers[k])),
        ]
    elif name in THREE_LISTS:
        calls = [
            ((ys, zs), lambda k: (ys[k], zs[k])),
            ((ys, zs, 0.5), lambda k: (ys[k], zs[k], {"value": 0.5})),
            ((ys, zs, numbers), lambda k: (ys[k], zs[k], {"value": numbers[k]})),
            ((ys, zs, torch.tensor(numbers)), lambda k: (ys[k], zs[k], {"value": numbers[k]})),
        ]
    else:
        calls = [((), lambda k: ())]
    for args, element in calls:
        want = []
        for k, x in enumerate(xs):
            rest = element(k)
            kw = rest[-1] if rest and isinstance(rest[-1], dict) else {}
            want.append(plain(name)(x, *(r for r in rest if r is not kw), **kw))
        same(getattr(torch, f"_foreach_{name}")(xs, *args), want)
        written = [x.clone() for x in xs]
        back = getattr(torch, f"_foreach_{name}_")(written, *args)
        assert isinstance(back, list) and all(a.data_ptr() == b.data_ptr() for a, b in zip(back, written) if a.is_cpu)
        same(written, want)


def test_a_zero_dimensional_tensor_applies_to_all(device):
    xs = tensors(device)
    by = torch.tensor(2.0)
    same(torch._foreach_mul(xs, by), [x * 2 for x in xs])
    same(torch._foreach_div(xs, by), [x / 2 for x in xs])
    same(torch._foreach_add(xs, by, alpha=3), [x + 6 for x in xs])
    same(torch._foreach_add(xs, xs, alpha=-0.5), [x - 0.5 * x for x in xs])
    same(torch._foreach_pow(2.0, xs), [2.0**x for x in xs])


def test_reductions_copies_and_products(device):
    xs = tensors(device, -1, 1)
    same(torch._foreach_norm(xs), [x.norm() for x in xs])
    same(
        torch._foreach_norm(xs, 1, dtype=torch.float64),
        [torch.linalg.vector_norm(x, 1, dtype=torch.float64) for x in xs],
    )
    same(torch._foreach_norm(xs, float("inf")), [x.abs().max() for x in xs])
    same(torch._foreach_powsum(xs, 3), [(x.abs() ** 3).sum() for x in xs])
    same(torch._foreach_max(xs), [x.max() for x in xs])
    copies = torch._foreach_clone(xs)
    same(torch._foreach_zero_(xs), [torch.zeros(size, device=device) for size in SIZES])
    same(torch._foreach_copy_(xs, [c.double() for c in copies]), list(copies))
    same(
        torch._foreach_mm([x[:, :2] for x in [torch.eye(2, 2).to(device)]], [torch.ones(2, 3, device=device)]),
        [torch.ones(2, 3, device=device)],
    )


def test_gradients_reach_every_tensor(device):
    xs = [x.requires_grad_() for x in tensors(device)]
    sum(y.sum() for y in torch._foreach_mul(torch._foreach_exp(xs), 2.0)).backward()
    for x in xs:
        assert torch.allclose(x.grad, 2 * x.detach().exp())


def test_an_average_of_parameters_as_scripts_keep_it(device):
    model = torch.nn.Linear(3, 2).to(device)
    average = [p.detach().clone() for p in model.parameters()]
    want = [p.clone() for p in average]
    for _ in range(3):
        with torch.no_grad():
            torch._foreach_add_(list(model.parameters()), 0.1)
            torch._foreach_lerp_(average, list(model.parameters()), 0.25)
            want = [w.lerp(p, 0.25) for w, p in zip(want, model.parameters())]
    same(average, want)


REFUSED = [
    (lambda xs, w, i: torch._foreach_abs([]), RuntimeError, "Tensor list must have at least one tensor."),
    (lambda xs, w, i: torch._foreach_add_([], 1), RuntimeError, "Tensor list must have at least one tensor."),
    (
        lambda xs, w, i: torch._foreach_add(xs, xs[:1]),
        RuntimeError,
        "Tensor lists must have the same number of tensors, got 3 and 1",
    ),
    (
        lambda xs, w, i: torch._foreach_addcmul(xs, xs, xs[:1], value=2),
        RuntimeError,
        "Tensor lists must have the same number of tensors, got 3 and 1",
    ),
    (
        lambda xs, w, i: torch._foreach_mul(xs, [1.0]),
        RuntimeError,
        "Tensor list must have same number of elements as scalar list.",
    ),
    (
        lambda xs, w, i: torch._foreach_mul(xs, torch.ones(2)),
        RuntimeError,
        "scalar tensor expected to be 0 dim but it has 1 dimensions and 2 elements.",
    ),
    (
        lambda xs, w, i: torch._foreach_addcdiv(xs, xs, xs, torch.ones(2)),
        RuntimeError,
        "Expected length of scalars to match input of length 3 but got 2 instead.",
    ),
    (
        lambda xs, w, i: torch._foreach_addcdiv(xs, xs, xs, torch.ones(1, 3)),
        RuntimeError,
        "Expected packed scalar Tensor to be of dimension 1. Got 2 instead.",
    ),
    (lambda xs, w, i: torch._foreach_add(xs[0], 1), TypeError, "received an invalid combination of arguments"),
    (lambda xs, w, i: torch._foreach_abs(xs, 1), TypeError, "takes 1 positional argument but 2 were given"),
    (
        lambda xs, w, i: torch._foreach_add_([w], 1.0),
        RuntimeError,
        "a leaf Variable that requires grad is being used in an in-place operation.",
    ),
    (
        lambda xs, w, i: torch._foreach_sqrt_([i]),
        RuntimeError,
        "result type Float can't be cast to the desired output type Long",
    ),
]


@pytest.mark.parametrize("call, kind, words", REFUSED, ids=[words[:60] for _, _, words in REFUSED])
def test_what_is_refused(call, kind, words):
    with pytest.raises(kind) as error:
        call(tensors("cpu"), torch.ones(2, requires_grad=True), torch.arange(3))
    assert words in str(error.value)


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
