"""Graphs that backends of `torch.compile` get, and what becomes of values, gradients and writes."""

import copy
import dataclasses
import operator
import pickle

import pytest

import pytpu as torch
import pytpu.nn.functional as F
from pytpu import nn
from pytpu._dynamo.testing import CompileCounter, EagerAndRecordGraphs


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x, extra, *, factor=2):
        self.steps.add_(1)
        y = self.norm(self.linear(x))
        y += extra["a"] * factor
        with torch.no_grad():
            z = y * 2
        return {"out": y.relu() + self.steps, "parts": [z[0], 1 - x, x.max(0).values], "number": factor}


def test_a_module_has_the_results_gradients_and_buffers_of_eager(device):
    torch.manual_seed(0)
    plain = Block().to(device)
    net = copy.deepcopy(plain)
    recorded = EagerAndRecordGraphs()
    fast = torch.compile(net, backend=recorded)
    x = torch.rand(4, 3, device=device)
    for _ in range(3):
        given = {"a": torch.ones(3, device=device)}
        a, b = fast(x, given, factor=3), plain(x, given, factor=3)
        assert list(a) == list(b) and a["number"] == 3
        assert torch.allclose(a["out"], b["out"]) and all(map(torch.allclose, a["parts"], b["parts"]))
        assert not a["parts"][0].requires_grad
        a["out"].sum().backward()
        b["out"].sum().backward()
    for p, q in zip(net.parameters(), plain.parameters()):
        assert torch.allclose(p.grad, q.grad, atol=1e-6)
    for p, q in zip(net.buffers(), plain.buffers()):
        assert torch.allclose(p, q)
    (graph,) = recorded.graphs
    names = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
    assert "l_x_" in names and "l_self_modules_linear_parameters_weight_" in names and "l_extra_a_" in names
    assert "l_self_buffers_steps_" in names


def test_the_code_of_a_graph():
    recorded = EagerAndRecordGraphs()

    @torch.compile(backend=recorded)
    def f(x, y):
        z = torch.sin(x) @ y.T
        return -z[0] + 2 ** x.sum(), z.relu_()

    f(torch.ones(2, 2), torch.ones(2, 2))
    (graph,) = recorded.graphs
    assert [n.target for n in graph.graph.nodes if n.op.startswith("call")] == [
        torch.sin,
        getattr,
        operator.matmul,
        operator.getitem,
        operator.neg,
        "sum",
        operator.pow,
        operator.add,
        "relu_",
    ]
    values = [n.meta["example_value"] for n in graph.graph.nodes if n.op == "placeholder"]
    assert [tuple(v.shape) for v in values] == [(2, 2), (2, 2)]


def test_a_backend_gets_real_inputs_and_is_called_once_for_a_description():
    seen = []

    def backend(gm, example_inputs):
        seen.append([(type(x), tuple(x.shape), x.requires_grad) for x in example_inputs])
        return gm.forward

    weight = nn.Parameter(torch.ones(3))
    f = torch.compile(lambda x, n=1.0: x * weight + n, backend=backend)
    for x in (torch.ones(2, 3), torch.zeros(2, 3), torch.ones(3), torch.ones(3).requires_grad_()):
        assert torch.equal(f(x), x * weight + 1)
    assert seen == [
        [(torch.Tensor, shape, grad), (nn.Parameter, (3,), True)]
        for shape, grad in (((2, 3), False), ((3,), False), ((3,), True))
    ]
    f(torch.ones(3), 2.0)
    f(torch.ones(3).double())
    assert len(seen) == 5
    with torch.no_grad():
        f(torch.ones(3))
    assert len(seen) == 6


def test_the_result_of_a_backend_is_what_runs():
    def backend(gm, example_inputs):
        for node in gm.graph.find_nodes(op="call_function", target=operator.add):
            node.target = operator.mul
        gm.recompile()
        return gm.forward

    assert torch.compile(lambda x: x + 5, backend=backend)(torch.full((2,), 3.0)).tolist() == [15, 15]

    # A function of a list is one that may empty it.
    def boxed(gm, example_inputs):
        def run(args):
            (x,) = args
            args.clear()
            return [x * 7]

        run._boxed_call = True
        return run

    assert torch.compile(lambda x: x + 5, backend=boxed)(torch.ones(1)).tolist() == [7]


def test_reads_end_graphs():
    counter = CompileCounter()

    @torch.compile(backend=counter)
    def f(x):
        y = x * 2
        y = y + 1 if y.sum() > 0 else y - 1
        return y * y.max().item(), [float(v) for v in y]

    assert f(torch.ones(2))[0].tolist() == [9, 9] and f(-torch.ones(2))[1] == [-3, -3]
    assert counter.frame_count >= 3
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"(?s)Tensor.__bool__.*test_compile_backends.py"):
        torch.compile(lambda x: 1 if x.sum() > 0 else 2, backend="eager", fullgraph=True)(torch.ones(2))
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"Tensor.item"):
        torch.compile(lambda x: x.sum().item(), backend="eager", fullgraph=True)(torch.ones(2))


@dataclasses.dataclass
class Pair:
    first: object
    second: object


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        return x * x * factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0] * 7, None


def writes_input(x):
    x.add_(1)
    row = x[0]
    row.mul_(3)
    return x, row


def writes_view(x):
    y = x * 1
    flat = y.view(-1)
    y.add_(1)
    flat[0] = 9
    y[y > 2] = 0
    return y, flat


def sizes_of_values(x):
    return (x > 0.3).nonzero(), x[x > 0.3]


def catches(x):
    try:
        return x @ torch.ones(77)
    except RuntimeError:
        return x + 1


def calls_backward(x):
    w = torch.zeros(3, requires_grad=True)
    ((w * 2).sum() + x.sum().detach()).backward()
    return w.grad


def draws(x):
    a = torch.rand(3)
    torch.manual_seed(3)
    b = F.dropout(torch.ones(5))
    state = torch.get_rng_state()
    c = torch.randn(2)
    torch.set_rng_state(state)
    return a, b, c, torch.randn(2), torch.rand(2, generator=torch.Generator().manual_seed(1))


def other_dtypes(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
    torch.set_default_dtype(torch.float64)
    try:
        return y, torch.ones(2) * 3, y.to(float)
    finally:
        torch.set_default_dtype(torch.float32)


def makes_modules(x):
    torch.manual_seed(0)
    return nn.LSTM(4, 3)(x), nn.Parameter(x.detach() * 2) * 1


def changes_sizes(x):
    y = x * 2
    y.unsqueeze_(0)
    return y, y.shape, x.T.shape, x.mT


def hooks(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda g: g * 5)
    return y * 3


def structures(x):
    kept = [x]
    kept.append(kept[0] + 1)
    kept[0] = kept[1] * 2
    return Pair(x, {"kept": kept, "none": None}), x.sort(-1), divmod(7, 2), sum([x, x])


def leaves_graph(x):
    @torch.compiler.disable
    def outside(a):
        assert not torch.compiler.is_compiling()
        return a * float(a.detach().sum())

    y = outside(x + 1)
    torch._dynamo.graph_break()
    return y * 2, str(x.detach().sum())


def uses_checkpoint(x):
    from pytpu.utils.checkpoint import checkpoint

    return checkpoint(lambda a: (a * a).sin(), x, use_reentrant=False), Square.apply(x, 3.0) + x


def without_gradients(x):
    with torch.no_grad():
        y = x * 2
    with torch.inference_mode():
        z = (x * 3).sum()
    return x * y, z.clone(), x.detach() * x


def leaves_of(value, found):
    if isinstance(value, (list, tuple)):
        for item in value:
            leaves_of(item, found)
    elif isinstance(value, dict):
        leaves_of(list(value.values()), found)
    elif isinstance(value, Pair):
        leaves_of([value.first, value.second], found)
    else:
        found.append(value)
    return found


PROGRAMS = [
    writes_input,
    writes_view,
    sizes_of_values,
    catches,
    calls_backward,
    draws,
    other_dtypes,
    makes_modules,
    changes_sizes,
    hooks,
    structures,
    leaves_graph,
    uses_checkpoint,
    without_gradients,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("needs_grad", [False, True])
def test_programs_do_as_without_a_backend(program, needs_grad):
    def run(f):
        torch.manual_seed(0)
        x = (torch.arange(12.0).reshape(3, 4) / 10).requires_grad_(needs_grad)
        given = x * 1 if program is writes_input else x
        results = leaves_of([f(given), f(given), given], [])
        loss = [t.float().square().sum() for t in results if isinstance(t, torch.Tensor) and t.grad_fn is not None]
        if loss:
            sum(loss).backward()
        return results, x.grad

    expected, grad = run(program)
    results, found = run(torch.compile(program, backend="eager"))
    assert len(results) == len(expected)
    for a, b in zip(results, expected):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert type(a) is type(b) and (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
        assert torch.equal(a, b) and a.is_leaf == b.is_leaf
    assert (grad is None and found is None) or torch.equal(grad, found)


def test_a_training_step_is_compiled_whole():
    def step_of(net, optimizer):
        def step(x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    plain = copy.deepcopy(net)
    counter = CompileCounter()
    fast = torch.compile(step_of(net, torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)), backend=counter)
    slow = step_of(plain, torch.optim.SGD(plain.parameters(), 0.1, momentum=0.9))
    for i in range(4):
        x = torch.full((4, 3), 0.1 * i)
        assert torch.equal(fast(x), slow(x))
    assert all(map(torch.equal, net.parameters(), plain.parameters())) and counter.frame_count <= 4


def test_modules_are_compiled_in_place_copied_and_pickled():
    counter = CompileCounter()
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    expected = net(torch.ones(1, 2))
    net.compile(backend=counter)
    assert torch.equal(net(torch.ones(1, 2)), expected) and counter.frame_count == 1
    fast = torch.compile(nn.Linear(2, 2), backend="eager")
    x = torch.ones(1, 2)
    before = fast(x)
    other = pickle.loads(pickle.dumps(fast))
    average = copy.deepcopy(fast)
    with torch.no_grad():
        average.weight.zero_()
        average.bias.zero_()
    assert torch.equal(fast(x), before) and torch.equal(other(x), before) and not average(x).any()


def test_compiled_functions_within_one_are_part_of_its_graph():
    inner_counter, counter = CompileCounter(), CompileCounter()
    inner = torch.compile(lambda x: x * 2, backend=inner_counter)
    assert torch.compile(lambda x: inner(x) + 1, backend=counter)(torch.ones(1)).tolist() == [3]
    assert (inner_counter.frame_count, counter.frame_count, counter.op_count) == (0, 1, 2)


def test_opaque_functions_are_one_node():
    @torch.compiler.allow_in_graph
    def opaque(x):
        return x * 2 + 1

    recorded = EagerAndRecordGraphs()
    x = torch.ones(2, requires_grad=True)
    y = torch.compile(lambda x: opaque(x) + 1, backend=recorded, fullgraph=True)(x)
    y.sum().backward()
    assert y.tolist() == [4, 4] and x.grad.tolist() == [2, 2]
    calls = [n.name for n in recorded.graphs[0].graph.nodes if n.op.startswith("call")]
    assert calls == ["opaque", "add"] and torch.compiler.nonstrict_trace(len)([1]) == 1


def test_limits_of_graphs(caplog):
    def f(x, n):
        return x + n

    with torch._dynamo.config.patch(recompile_limit=2):
        assert torch._dynamo.config.cache_size_limit == torch.compiler.config.recompile_limit == 2
        counter = CompileCounter()
        fast = torch.compile(f, backend=counter)
        with caplog.at_level("WARNING", "torch._dynamo"):
            assert [fast(torch.ones(1), float(n)).item() for n in range(5)] == [1, 2, 3, 4, 5]
        assert counter.frame_count == 2 and "torch._dynamo hit config.recompile_limit (2)" in caplog.text
        strict = torch.compile(f, backend="eager", fullgraph=True)
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit, match="Hard failure due to fullgraph=True"):
            [strict(torch.ones(1), float(n)) for n in range(5)]
    assert torch._dynamo.config.recompile_limit == 8
    with torch._dynamo.config.patch("error_on_recompile", True):
        fast = torch.compile(f, backend="eager")
        fast(torch.ones(1), 1)
        with pytest.raises(torch._dynamo.exc.RecompileError, match=r"(?s)Recompiling function f.*size mismatch"):
            fast(torch.ones(2), 1)


def test_errors_of_backends():
    def bad(gm, example_inputs):
        raise TypeError("no")

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"backend='bad' raised:\nTypeError: no"):
        torch.compile(lambda x: x + 1, backend=bad)(torch.ones(1))
    with torch._dynamo.config.patch(suppress_errors=True):
        assert torch.compile(lambda x: x + 1, backend=bad)(torch.ones(1)).tolist() == [2]
    with pytest.raises(RuntimeError, match="same number of elements"):
        torch.compile(lambda x: x @ torch.ones(5), backend="eager")(torch.ones(2))
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="Dynamo failed to run FX node with fake tensors"):
        torch.compile(lambda x: x @ torch.ones(5), backend="eager", fullgraph=True)(torch.ones(2))
    with pytest.raises(RuntimeError, match="made by something that is no torch function"):
        torch.compile(lambda x: (x + 1).as_subclass(torch.Tensor), backend="eager")(torch.ones(1))
