"""Autograd: functions, hooks, checkpoints, anomaly mode, gradcheck, functional."""

import warnings

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.autograd import Function, functional as AF, gradcheck, gradgradcheck, graph
from pytpu.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential


def double(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


class Product(Function):
    @staticmethod
    def forward(a, b):
        return a * b, a > 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[0])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        a, b, _ = ctx.saved_tensors
        return g * b, g * a


class Twice(Function):
    """Return half of the right gradient."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        ctx.kept = "kept"
        return a * a

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


# ---- functions


def test_functions_are_checked_once_and_twice():
    a, b = double(0.5, 1.5), double(2.0, -1.0)
    assert gradcheck(lambda a, b: Product.apply(a, b)[0], (a, b))
    assert gradgradcheck(lambda a, b: Product.apply(a, b)[0], (a, b))
    assert not Product.apply(a, b)[1].requires_grad
    with pytest.raises(torch.autograd.gradcheck.__globals__["GradcheckError"], match="Jacobian mismatch for output 0"):
        gradcheck(Twice.apply, (a,))
    assert not gradcheck(Twice.apply, (a,), raise_exception=False)
    assert not gradcheck(Twice.apply, (a,), fast_mode=True, raise_exception=False)


def test_the_node_of_a_function_shows_its_context():
    a = double(1.0)
    node = Twice.apply(a).grad_fn
    assert type(node).__name__ == node.name() == "TwiceBackward" and isinstance(node, graph.Node)
    assert node.kept == "kept" and node.saved_tensors[0] is a and node.needs_input_grad == (True,)
    with pytest.raises(AttributeError):
        node.other


def function(forward, backward):
    return type("F", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


@pytest.mark.parametrize(
    "forward, backward, error, text",
    [
        (
            lambda ctx, a: ctx.save_for_backward(a, 3),
            None,
            TypeError,
            "can only save variables, but argument 1 is of type int",
        ),
        (lambda ctx, a: (ctx.mark_dirty(torch.ones(1)), a * 1)[1], None, RuntimeError, "Some elements marked as dirty"),
        (
            lambda ctx, a: a * 1,
            lambda ctx, g: (g, g),
            RuntimeError,
            r"incorrect number of gradients \(expected 1, got 2\)",
        ),
        (
            lambda ctx, a: a * 1,
            lambda ctx, g: torch.ones(7).double(),
            RuntimeError,
            r"invalid gradient at index 0 - got \[7\]",
        ),
        (lambda ctx, a: a * 1, lambda ctx, g: 3, RuntimeError, r"expected Variable or None \(got int\)"),
        (lambda ctx, a: a * 1, Function.backward, NotImplementedError, "either the backward or vjp method"),
    ],
)
def test_mistakes_in_functions(forward, backward, error, text):
    with pytest.raises(error, match=text):
        function(forward, backward).apply(double(1.0, 2.0)).sum().backward()


def test_an_exception_in_backward_leaves_the_graph_usable():
    class Fails(Function):
        fail = True

        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            if Fails.fail:
                raise ValueError("mine")
            return g

    x = double(1.0, 2.0)
    y = Fails.apply(x * x).sum()
    with pytest.raises(ValueError, match="mine"):
        y.backward(retain_graph=True)
    assert torch.is_grad_enabled() and x.grad is None
    Fails.fail = False
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_outputs_that_are_no_tensors_and_missing_gradients():
    seen = []

    class Several(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.set_materialize_grads(False)
            return 3, a * 1, None, a * 2

        @staticmethod
        def backward(ctx, *grads):
            seen.append([g is None for g in grads])
            return grads[1]

    x = double(1.0)
    y = Several.apply(x)
    assert y[0] == 3 and y[2] is None
    y[1].sum().backward()
    assert seen == [[True, False, True, True]]


@pytest.mark.parametrize("create_graph", [False, True])
def test_materialized_zeros_need_a_gradient_where_the_graph_is_kept(create_graph):
    x, unused = double(1.0), double(2.0)
    (g,) = torch.autograd.grad(x.sum(), unused, create_graph=create_graph, materialize_grads=True)
    assert g.tolist() == [0.0] and g.requires_grad is create_graph


def test_in_place_functions():
    class AddOne(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            return a.add_(1)

        @staticmethod
        def backward(ctx, g):
            return g

    x = double(1.0)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad has been used in an in-place operation"):
        AddOne.apply(x)
    y = double(1.0) * 1
    assert AddOne.apply(y) is y and y.grad_fn.name() == "AddOneBackward"


def test_once_differentiable():
    class Square(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x, w = double(3.0), double(1.0)
    (g,) = torch.autograd.grad(Square.apply(x) * w, x, create_graph=True)
    assert g.item() == 6.0
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        g.sum().backward()


# ---- nodes and their hooks


def test_nodes_and_edges():
    x = double(1.0, 2.0)
    h = x * 2
    y = (h * h).sum()
    node = y.grad_fn
    assert type(node).__name__ == "SumBackward0" and node is not None and node == y.grad_fn
    leaf = h.grad_fn.next_functions[0][0]
    assert leaf.name() == "torch::autograd::AccumulateGrad" and leaf.variable is x
    node.metadata["a"] = 1
    assert y.grad_fn.metadata == {"a": 1}
    edge = graph.get_gradient_edge(h)
    assert torch.autograd.grad(y, edge, retain_graph=True)[0].tolist() == [4.0, 8.0]
    assert torch.autograd.grad(edge, x, torch.ones(2).double())[0].tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="not possible to get the gradient edge"):
        graph.get_gradient_edge(torch.ones(1))


def test_hooks_on_nodes():
    x = double(1.0, 2.0)
    y = (x * x).sum()
    seen = []
    y.grad_fn.register_prehook(lambda g: (g[0] * 3,))
    handle = y.grad_fn.register_hook(lambda gi, go: seen.append((gi[0].tolist(), go[0].item())))
    y.backward(retain_graph=True)
    assert seen == [([3.0, 3.0], 3.0)] and x.grad.tolist() == [6.0, 12.0]
    handle.remove()
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 0,))
    x.grad = None
    y.backward(retain_graph=True)
    assert len(seen) == 1 and x.grad.tolist() == [0.0, 0.0]
    y.grad_fn.register_hook(lambda gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match=r"incorrect number of values \(got 2, but expected 1\)"):
        y.backward(retain_graph=True)
    z = (x * x).sum()
    z.grad_fn.register_hook(lambda gi, go: 3)
    with pytest.raises(TypeError, match="expected tuple, but hook returned 'int'"):
        z.backward()


def test_a_hook_may_not_change_size_dtype_or_device():
    was = r"hook '<lambda>' has changed the type of value \(was torch.FloatTensor got "
    size = "hook '<lambda>' has changed the size of value"
    cases = [
        (lambda g: torch.ones(5), RuntimeError, size),
        (lambda g: torch.ones(1), RuntimeError, size),
        (lambda g: g.double(), RuntimeError, was + r"torch.DoubleTensor\)"),
        (lambda g: g.long(), RuntimeError, was + r"torch.LongTensor\)"),
        (lambda g: g.to(torch.complex64), RuntimeError, was + r"CPUComplexFloatType\)"),
        (lambda g: g.to("meta"), RuntimeError, was + r"MetaFloatType\)"),
        (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
    ]
    for hook, error, text in cases:
        for computed in (False, True):
            p = torch.ones(3, requires_grad=True)
            q = p * 2 if computed else p
            q.register_hook(hook)
            with pytest.raises(error, match=text):
                (q * 3).sum().backward()
            assert p.grad is None
            with pytest.raises(error, match=text):
                torch.autograd.grad((q * 3).sum(), [q])
    for register in ("register_prehook", "register_hook"):
        q = torch.ones(3, requires_grad=True) * 2
        getattr(q.grad_fn, register)(lambda *g: (torch.ones(5),) + g[0][1:])
        with pytest.raises(RuntimeError, match=size):
            q.sum().backward()


def test_hooks_on_the_accumulation():
    x = double(1.0)
    node = (x * 2).grad_fn.next_functions[0][0]
    seen = []
    handle = node.register_prehook(lambda g: seen.append(("pre", g[0].item())))
    node.register_hook(lambda gi, go: seen.append(("post", gi, go[0].item(), x.grad.item())))
    (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert seen == [("pre", 2.0), ("post", (), 2.0, 2.0), ("post", (), 2.0, 4.0)]


def test_multi_grad_hooks():
    a, b = double(1.0, 2.0), double(3.0, 4.0)
    c = a * b
    y = (c + b).sum()
    seen = []
    handle = graph.register_multi_grad_hook((a, b, c), lambda g: seen.append([t is None for t in g]))
    first = graph.register_multi_grad_hook((a, b), lambda g: seen.append("any"), mode="any")
    y.backward(retain_graph=True)
    c.sum().backward(inputs=[a], retain_graph=True)
    handle.remove()
    first.remove()
    y.backward()
    assert sorted(map(str, seen)) == sorted(map(str, ["any", [False, False, False], "any", [False, True, False]]))
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        graph.register_multi_grad_hook((a,), print, mode="some")


def test_an_exception_in_a_hook_leaves_the_graph_usable():
    x = double(1.0)
    y = (x * x).sum()
    handle = x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward(retain_graph=True)
    handle.remove()
    y.backward()
    assert x.grad.item() == 2.0


# ---- hooks on saved tensors


def test_saved_tensor_hooks():
    x = nn.Parameter(torch.tensor([0.5, 1.0], dtype=torch.float64))
    packed, unpacked = [], []

    def pack(t):
        packed.append(t)
        return t.detach().clone()

    def unpack(t):
        unpacked.append(t)
        return t

    with graph.saved_tensors_hooks(pack, unpack):
        y = (x * x).exp()
    assert packed[0] is x
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    want = (2 + 4 * x * x) * (x * x).exp()
    assert torch.allclose(gg, want) and unpacked


def test_mistakes_in_saved_tensor_hooks():
    x = double(1.0)

    def boom(_):
        raise KeyError("boom")

    with graph.saved_tensors_hooks(boom, lambda t: t), pytest.raises(KeyError):
        x * x
    with graph.saved_tensors_hooks(lambda t: t, boom):
        y = x * x
    with pytest.raises(KeyError):
        y.backward()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x * x
    with pytest.raises(TypeError, match="expected to be a Tensor but got result of type int"):
        y.backward()
    z = x * 1
    with (
        graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(RuntimeError, match="modifying its input"),
    ):
        z * z
    with graph.disable_saved_tensors_hooks("none here"), pytest.raises(RuntimeError, match="none here"):
        with graph.saved_tensors_hooks(boom, boom):
            pass


def test_save_on_cpu(device):
    x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    with graph.save_on_cpu():
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0] and x.grad.device.type == device


def test_mutation_of_saved_tensors():
    x = double(1.0, 2.0)
    y = x * 1
    with graph.allow_mutation_on_saved_tensors():
        z = (y * y).sum()
        with torch.no_grad():
            y.add_(5)
        z.backward()
    assert x.grad.tolist() == [2.0, 4.0]


# ---- versions


def test_data_has_a_version_of_its_own(device):
    x = torch.ones(3, device=device, requires_grad=True)
    y = (x * x).sum()
    x.data.add_(1)
    assert x._version == 0 and x.tolist() == [2.0] * 3
    y.backward()
    p = torch.ones(3, device=device, requires_grad=True) * 1
    y = (p * p).sum()
    p.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.* is at version 1; expected version 0"):
        y.backward()


# ---- anomaly mode


def test_anomaly_mode_names_the_forward_line():
    x = torch.tensor([-1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = torch.autograd.detect_anomaly()
    with mode, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = x.sqrt()  # the line to blame
        with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
            y.sum().backward()
    assert "y = x.sqrt()  # the line to blame" in str(caught[-1].message)
    x.sqrt().sum().backward()
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        x.sqrt().sum().backward()
    assert not torch.is_anomaly_enabled()


def test_anomaly_mode_is_a_setting():
    torch.set_anomaly_enabled(True, False)
    assert (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()) == (True, False)
    torch.set_anomaly_enabled(False)
    assert not torch.is_anomaly_enabled()


# ---- checkpoints


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_equals_the_plain_run(reentrant, device):
    layer = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 4)).to(device)
    x = torch.randn(6, 4).to(device).requires_grad_()

    def run(again):
        torch.manual_seed(3)
        layer.zero_grad()
        x.grad = None
        y = checkpoint(layer, x, use_reentrant=reentrant) if again else layer(x)
        y.sin().sum().backward()
        return [y.detach(), x.grad, *(p.grad for p in layer.parameters())]

    for a, b in zip(run(True), run(False)):
        assert torch.allclose(a, b, atol=1e-6)


def test_checkpoint_runs_twice_and_nests():
    runs = []

    def work(x, scale=1.0):
        runs.append(1)
        return checkpoint(lambda y: (y * scale).sin() * y, x.exp(), use_reentrant=False)

    x = double(0.3, -0.5)
    assert gradcheck(lambda x: checkpoint(work, x, use_reentrant=False, scale=2.0), (x,))
    assert gradgradcheck(lambda x: checkpoint(work, x, use_reentrant=False, scale=2.0), (x,))
    runs.clear()
    y = checkpoint(work, x, use_reentrant=False).sum()
    assert len(runs) == 1
    torch.autograd.grad(y, x, retain_graph=True)
    assert len(runs) == 2
    torch.autograd.grad(y, x)
    assert len(runs) == 3


def test_checkpoint_sequential():
    layers = [nn.Linear(3, 3) for _ in range(5)]
    x = torch.randn(2, 3, requires_grad=True)
    y = checkpoint_sequential(layers, 2, x, use_reentrant=False)
    assert torch.equal(y, nn.Sequential(*layers)(x))
    y.sum().backward()
    assert all(p.grad is not None for layer in layers for p in layer.parameters())


def test_mistakes_with_checkpoints():
    x = double(1.0)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(torch.sin, x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: k"):
        checkpoint(torch.sin, x, use_reentrant=True, k=1)
    count = []

    def differs(x):
        count.append(1)
        return x.exp().sin() if len(count) == 1 else x * 1

    with pytest.raises(CheckpointError, match="A different number of tensors was saved"):
        checkpoint(differs, x, use_reentrant=False).backward()

    def fails(x):
        if len(count) > 1:
            raise OSError("mine")
        count.append(1)
        return x.exp().sin()

    count.clear()
    y = checkpoint(fails, x, use_reentrant=False)
    count.append(1)
    with pytest.raises(OSError, match="mine"):
        y.backward()
    assert torch.is_grad_enabled()


# ---- grad, gradcheck, functional


def test_batched_gradients():
    x = double(1.0, 2.0, 3.0)
    y = x * x
    (g,) = torch.autograd.grad(y, x, torch.eye(3).double(), is_grads_batched=True)
    assert torch.equal(g, 2 * torch.diag(x.detach()))
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`"):
        torch.autograd.grad(x * x, x, torch.ones(2, 2).double(), is_grads_batched=True)


def test_gradcheck_notices():
    x = double(0.5, 1.5)
    assert gradcheck(lambda a: a * a.sin(), (x,), fast_mode=True, check_batched_grad=True)
    with pytest.raises(ValueError, match="none of them have requires_grad=True"):
        gradcheck(lambda a: a, (torch.ones(2),))
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda a: (a * a).detach(), (x,))
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        gradcheck(lambda a: a * 2, (torch.ones(2, requires_grad=True),), eps=1e-2, atol=1e-2)


def test_functional():
    x, w = torch.tensor([0.5, -1.0, 2.0]).double(), torch.tensor([1.0, 2.0, 3.0]).double()

    def f(x, w):
        return x.exp() * w, (x * w).sum()

    jac = AF.jacobian(f, (x, w))
    assert torch.allclose(jac[0][0], torch.diag(x.exp() * w)) and torch.allclose(jac[1][1], x)

    def g(x):
        return (x**3).sum() * x[0]

    want = torch.diag(6 * x * x[0])
    want[0] += 3 * x**2
    want[:, 0] += 3 * x**2
    assert torch.allclose(AF.hessian(g, x), want)
    assert torch.allclose(AF.hvp(g, x, w)[1], want @ w) and torch.allclose(AF.vhp(g, x, w)[1], w @ want)
    _, product = AF.jvp(lambda x: x.exp(), x, w)
    assert torch.allclose(product, x.exp() * w)
    _, product = AF.vjp(lambda x: x.exp(), x, w)
    assert torch.allclose(product, x.exp() * w)
    assert not AF.jacobian(torch.sin, x).requires_grad
    assert AF.jacobian(torch.sin, x.requires_grad_(), create_graph=True).requires_grad
    with pytest.raises(RuntimeError, match="v has invalid size"):
        AF.vjp(torch.sin, x, torch.ones(2))
    with pytest.raises(RuntimeError, match="is independent of input 0. This is not allowed in strict mode"):
        AF.jacobian(lambda a, b: b * 2, (x, w), strict=True)


def test_a_long_chain_of_functions():
    x = double(1.0)
    y = x
    for _ in range(20_000):
        y = Product.apply(y, torch.ones(1).double())[0]
    y.backward()
    assert x.grad.item() == 1.0


def test_gradients_that_are_not_requested_are_not_computed(device):
    x, w = (torch.randn(3, 3, device=device, requires_grad=True) for _ in range(2))
    y = x @ w
    missing = []
    y.grad_fn.register_hook(lambda grads, _: missing.append([g is None for g in grads]))
    torch.autograd.grad(y.sum(), w, retain_graph=True)
    torch.autograd.grad(y.sum(), x, retain_graph=True)
    y.sum().backward()
    assert missing == [[True, False], [False, True], [False, False]]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_parts_share_a_node(device):
    x = torch.arange(24.0, dtype=torch.float64).reshape(4, 6).to(device).requires_grad_()
    for take_apart, name in (
        (lambda x: x.split(2, 1), "Split"),
        (lambda x: x.chunk(3, 1), "Split"),
        (lambda x: x.split([2, 2, 2], 1), "SplitWithSizes"),
        (lambda x: x.unbind(1), "Unbind"),
    ):
        parts = take_apart(x)
        assert parts[0].grad_fn == parts[-1].grad_fn and parts[0].grad_fn.name() == f"{name}Backward0"
        assert all(p._is_view() for p in parts)
        # Use all parts, some of them, and one.
        for used in (range(len(parts)), (0, 2), (1,)):
            parts = take_apart(x)
            sum(parts[i].square().sum() for i in used).backward()
            want = torch.zeros_like(x)
            for w, p in ((take_apart(want)[i], take_apart(x.detach())[i]) for i in used):
                w.copy_(2 * p)
            assert torch.equal(x.grad, want), (name, used)
            x.grad = None
        assert torch.autograd.gradgradcheck(lambda x: take_apart(x)[0] * take_apart(x)[2].square(), x)
    # Unused parts record no nodes in backward.
    many = torch.ones(300, 8).to(device).requires_grad_()
    parts = many.unbind(0)
    (parts[0] * parts[7] * parts[-1]).sum().backward()
    assert many.grad.sum(1).tolist() == [8.0 if i in (0, 7, 299) else 0.0 for i in range(300)]
    if device == "tpu":
        torch.tpu.synchronize()
        parts = many.unbind(0)
        loss = (parts[0] * parts[7] * parts[-1]).sum()
        before = torch.tpu.metrics()["nodes_recorded"]
        loss.backward()
        assert torch.tpu.metrics()["nodes_recorded"] - before < 40
    # Parts of `tensor_split` do not share a node, so that one may be written in place.
    y = x * 1
    first, second, _ = y.tensor_split(3, 1)
    second.mul_(3)
    (y.sum() + first.sum()).backward()
    assert x.grad[0].tolist() == [2, 2, 3, 3, 1, 1]


def test_generators_hold_their_mode_only_while_they_run():
    seen = []

    @torch.no_grad()
    def numbers():
        try:
            sent = yield torch.is_grad_enabled()
            yield sent, torch.is_grad_enabled()
        except KeyError:
            seen.append(torch.is_grad_enabled())
            yield "caught"
        finally:
            seen.append(torch.is_grad_enabled())
        return "done"

    g = numbers()
    assert next(g) is False and torch.is_grad_enabled()
    assert g.send("value") == ("value", False) and torch.is_grad_enabled()
    assert g.throw(KeyError("mine")) == "caught" and seen == [False] and torch.is_grad_enabled()
    with pytest.raises(StopIteration, match="done"):
        next(g)
    assert seen == [False, False]
    # `close` runs the generator's `finally` block at once, in the generator's mode.
    g = numbers()
    next(g)
    g.close()
    assert seen == [False] * 3 and torch.is_grad_enabled()


def test_functions_are_not_called_as_objects():
    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        old = Old()
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"):
        old(torch.ones(1))


def test_hooks_of_tensors_have_handles_like_others():
    x = torch.ones(2, requires_grad=True)
    handle = x.register_hook(lambda g: g * 3)
    assert isinstance(handle, torch.utils.hooks.RemovableHandle)
    handle.remove()
    handle.remove()
    with x.register_hook(lambda g: g * 5):
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [6, 6]
