"""Hooks of modules and tensors, contexts of autograd, and errors and warnings of modules."""

import collections
import copy
import gc
import pickle
import subprocess
import sys
import warnings

import pytest

import pytpu as torch
import pytpu.nn as nn
from pytpu.autograd.gradcheck import GradcheckError

Pair = collections.namedtuple("Pair", "a b")


class Doubled(nn.Module):
    """Return the input times two and times three, in a container."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        return self.kind(x * 2, x * 3)


# ---- full backward hooks


def test_outputs_stay_namedtuples_with_backward_hooks(device):
    m = Doubled(Pair)
    m.register_full_backward_hook(lambda *args: None)
    out = m(torch.rand(2, requires_grad=True, device=device))
    assert type(out) is Pair and out.b.requires_grad


def test_detached_inputs_stay_detached_with_backward_hooks(device):
    seen = []

    class M(nn.Module):
        def forward(self, a, b):
            seen.append((a.requires_grad, b.requires_grad))
            return a + b

    m = M()
    m.register_full_backward_hook(lambda m, grad_input, grad_output: seen.append(grad_input))
    x = torch.ones(2, requires_grad=True, device=device)
    m(x, x.detach()).sum().backward()
    assert seen[0] == (True, False)
    assert seen[1][0].tolist() == [1, 1] and seen[1][1] is None


def test_hooks_get_none_for_missing_gradients():
    seen = []
    m = Doubled(lambda a, b: (a, b))
    m.register_full_backward_hook(lambda m, grad_input, grad_output: seen.append(grad_output))
    x = torch.ones(2, requires_grad=True)
    m(x)[0].sum().backward()
    assert seen[0][0].tolist() == [1, 1] and seen[0][1] is None
    assert x.grad.tolist() == [2, 2]


def test_hooks_may_return_a_tuple_of_none():
    m = nn.Linear(2, 3)
    m.register_full_backward_hook(lambda m, grad_input, grad_output: grad_input)
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        m(torch.rand(1, 2)).sum().backward()
    assert m.weight.grad is not None


def test_other_outputs_than_tensors_and_tuples_warn():
    m = Doubled(lambda a, b: [a, b])
    m.register_full_backward_hook(lambda *args: None)
    with pytest.warns(
        UserWarning, match="module output should be a Tensor or a tuple of Tensors but received <class 'list'>"
    ):
        m(torch.ones(1, requires_grad=True))


def test_full_backward_hooks_allow_second_derivatives():
    m = nn.Linear(2, 2)
    m.register_full_backward_hook(lambda *args: None)
    x = torch.rand(1, 2, requires_grad=True)
    (g,) = torch.autograd.grad(m(x).pow(2).sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(gg, (2 * m.weight.T @ m.weight).sum(0, keepdim=True))


# ---- older backward hooks


def test_older_hooks_see_dictionaries_of_outputs():
    seen = []
    m = Doubled(lambda a, b: {"a": a, "b": [b]})
    m.register_backward_hook(lambda m, grad_input, grad_output: seen.append(grad_output))
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning, match="does not return a single Tensor or a tuple of Tensors"):
        out = m(x)
    (out["a"].sum() + out["b"][0].sum()).backward()
    assert len(seen) == 1 and seen[0][0].tolist() == [1, 1]


def test_older_hooks_replace_the_gradients_of_one_node():
    m = nn.Sigmoid()
    m.register_backward_hook(lambda m, grad_input, grad_output: (torch.full((2,), 7.0),))
    x = torch.ones(2, requires_grad=True)
    m(x).sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_the_two_kinds_of_hooks_exclude_each_other():
    for first, second in (("", "full_"), ("full_", "")):
        m = nn.Linear(1, 1)
        getattr(m, f"register_{first}backward_hook")(lambda *args: None)
        with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
            getattr(m, f"register_{second}backward_hook")(lambda *args: None)


# ---- hooks of tensors and contexts of autograd


def test_post_accumulate_hooks_return_none():
    t = torch.ones(2, requires_grad=True)
    t.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        t.sum().backward()


def test_allowing_mutation_does_not_nest():
    allow = torch.autograd.graph.allow_mutation_on_saved_tensors
    with allow():
        with pytest.raises(RuntimeError, match="cannot be nested"), allow():
            pass
    with allow():
        pass


@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.enable_grad, torch.inference_mode, lambda: torch.set_grad_enabled(False)]
)
def test_decorating_a_class_warns(mode):
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @mode()
        class A:
            pass

    assert A() is not None


def test_backward_that_creates_a_graph_warns_once():
    code = """
import warnings, pytpu as torch
x = torch.ones(1, requires_grad=True)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    torch.autograd.grad(x * x, x, create_graph=True)
    assert not seen
    (x * x).backward(create_graph=True)
    (x * x).backward(create_graph=True)
assert len(seen) == 1 and "reference cycle" in str(seen[0].message), seen
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_setup_context_sees_default_and_named_arguments():
    seen = []

    class F(torch.autograd.Function):
        @staticmethod
        def forward(x, y=3):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append(inputs[1:])
            ctx.y = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.y, None

    x = torch.ones(1, requires_grad=True)
    (F.apply(x) + F.apply(x, y=4)).backward()
    assert seen == [(3,), (4,)] and x.grad.item() == 7


def test_torch_autograd_variable_makes_tensors():
    from pytpu.autograd import Variable

    x = torch.ones(2)
    v = Variable(x, requires_grad=True)
    assert v.requires_grad and not x.requires_grad and v.data_ptr() == x.data_ptr()
    assert isinstance(x, Variable) and type(v) is torch.Tensor
    assert Variable(v * 2).grad_fn is None
    with pytest.warns(UserWarning, match="volatile was removed"):
        Variable(x, volatile=True)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        Variable([1])


def test_no_inputs_are_refused():
    x = torch.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
        torch.autograd.grad(x * 2, [])
    for run in ((x * 2).backward, lambda inputs: torch.autograd.backward(x * 2, inputs=inputs)):
        with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
            run(inputs=[])


# ---- gradcheck


def test_gradcheck_is_a_function_after_the_import_of_its_module():
    code = """
import pytpu.autograd.gradcheck, pytpu.nn.utils.weight_norm, pytpu as torch
assert type(torch.autograd.gradcheck).__name__ == type(torch.nn.utils.weight_norm).__name__ == "function"
from pytpu.autograd.gradcheck import GradcheckError, gradcheck
assert gradcheck is torch.autograd.gradcheck
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_gradcheck_runs_the_function_with_gradients():
    seen = []

    def f(x):
        seen.append(x.requires_grad)
        y = x.clone()
        y.register_hook(lambda g: g)
        return y * 2

    assert torch.autograd.gradcheck(f, torch.rand(2, dtype=torch.double, requires_grad=True))
    assert all(seen)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_writes_through_conjugated_inputs(fast_mode):
    x = torch.randn(2, dtype=torch.complex128).conj().requires_grad_()
    y = torch.randn(2, dtype=torch.complex128)
    assert torch.autograd.gradcheck(torch.mul, (x, y), fast_mode=fast_mode)
    with pytest.raises(GradcheckError):
        torch.autograd.gradcheck(lambda x: x.detach() * y + x.real, (x,), fast_mode=fast_mode)


def test_gradcheck_leaves_saved_tensors_usable():
    x = torch.rand(2, dtype=torch.double, requires_grad=True)
    y = x * x
    torch.autograd.gradcheck(lambda x: x * 2, (x,))
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x)


# ---- modules


@pytest.mark.parametrize("kind", [nn.LazyBatchNorm1d, nn.LazyBatchNorm2d, nn.LazyInstanceNorm1d, nn.LazyLinear])
def test_lazy_modules_are_pickled_and_copied(kind):
    make = (lambda: kind(3)) if kind is nn.LazyLinear else (lambda: kind(affine=True, track_running_stats=True))
    shape = (2, 4, 5, 5) if kind is nn.LazyBatchNorm2d else (2, 4, 5)
    for m in (pickle.loads(pickle.dumps(make())), copy.deepcopy(make())):
        m(torch.rand(shape))
        assert type(m) is kind.cls_to_become


def test_loading_a_state_leaves_no_reference_cycles():
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    state, functional_call = copy.deepcopy(m).state_dict(), torch.func.functional_call
    gc.collect()
    m.load_state_dict(state)
    functional_call(m, dict(m.named_parameters()), torch.ones(2))
    assert gc.collect() == 0


def test_functional_call_of_a_module_that_contains_itself():
    m = nn.Linear(1, 1)
    m.me = m
    zeros = {"weight": torch.zeros(1, 1), "bias": torch.zeros(1)}
    for tie in (False, True):
        assert torch.func.functional_call(m, zeros, torch.ones(1), tie_weights=tie).item() == 0
    assert torch.func.functional_call(m, {"me.weight": torch.zeros(1, 1)}, torch.ones(1)).item() == m.bias.item()


def test_functional_call_removes_parameters_that_it_added():
    m = nn.Linear(1, 1)
    torch.func.functional_call(m, {"extra": nn.Parameter(torch.ones(1))}, torch.ones(1))
    assert [name for name, _ in m.named_parameters()] == ["weight", "bias"]


def test_functional_call_shows_its_tensors_among_the_parameters():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(1, 1)

        def forward(self, x):
            return tuple(self.parameters())

    w = torch.ones(1, 1)
    found = torch.func.functional_call(M(), {"l.weight": w}, torch.ones(1))
    assert len(found) == 2 and found[0] is w


def test_buffers_are_assigned_through_overrides_of_register_buffer():
    class Old(nn.Linear):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor, True)

    m = Old(2, 2)
    m.bar = nn.Buffer(torch.rand(1))
    assert "bar" in m._buffers
    with pytest.raises(RuntimeError, match="without the persistent argument"):
        m.baz = nn.Buffer(torch.rand(1), persistent=False)


def test_buffers_do_not_take_the_name_of_an_attribute():
    m = nn.Module()
    m.a = 5
    with pytest.raises(KeyError, match="attribute 'a' already exists"):
        m.register_buffer("a", torch.rand(1))


def test_modules_refuse_to_be_copied_by_to():
    for args, kwargs in ((("cpu",), {"copy": True}), (("cpu", torch.float32, False, True), {})):
        with pytest.raises(RuntimeError, match="does not accept copy argument"):
            nn.Linear(1, 1).to(*args, **kwargs)


def test_complex_modules_warn():
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        assert nn.Linear(1, 1).to(torch.cfloat).weight.is_complex()


def test_meta_modules_are_emptied_onto_a_device(device):
    assert nn.Linear(2, 2, device="meta").to_empty(device=device).weight.device.type == device


def test_replicas_accept_tensors_as_parameters():
    replica = nn.ParameterList([nn.Parameter(torch.ones(1))])._replicate_for_data_parallel()
    setattr(replica, "0", torch.zeros(1))
    assert replica[0].item() == 0


def test_parameter_lists_show_no_device_for_meta():
    p = nn.Parameter(torch.empty(1, device="meta"))
    assert "(0): Parameter containing: [torch.float32 of size 1]" in str(nn.ParameterList([p]))


@pytest.mark.parametrize("training", [True, False])
def test_attention_takes_empty_batches(device, training):
    m = nn.TransformerEncoderLayer(16, 2, batch_first=True).to(device).train(training)
    x = torch.rand(0, 10, 16, device=device, requires_grad=True)
    assert m(x).shape == (0, 10, 16)
    attention = nn.MultiheadAttention(16, 2, batch_first=True).to(device)
    y, weights = attention(x, x, x, key_padding_mask=torch.zeros(0, 10, dtype=torch.bool, device=device))
    assert y.shape == (0, 10, 16) and weights.shape == (0, 10, 10)


def test_spectral_norm_goes_through_two_calls():
    m = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4).double())
    x = torch.rand(2, 3, dtype=torch.double)
    (m(x) + m(x)).sum().backward()
    assert m.parametrizations.weight.original.grad is not None


@pytest.mark.parametrize("pool", [nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d])
def test_adaptive_average_pools_refuse_integers(pool):
    with pytest.raises(RuntimeError, match="not implemented for 'Short'"):
        pool(2)(torch.ones(1, 4, 4, dtype=torch.int16))


def test_operators_are_copied_as_themselves():
    for op in (torch.ops.aten.add, torch.ops.aten.add.Tensor):
        assert copy.deepcopy(op) is op and copy.copy(op) is op and pickle.loads(pickle.dumps(op)) is op


def test_valid_calls_give_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m = nn.ReLU()
        m.register_backward_hook(lambda *args: None)
        m(torch.ones(1, requires_grad=True)).backward()
        nn.Linear(1, 1).to(torch.float64)
