"""Selective checkpointing: a policy chooses the ops that run again. Gradients do not change."""

import contextlib
import functools

import pytest

import pytpu as torch
import pytpu.nn as nn
import pytpu.nn.functional as F
from pytpu.overrides import handle_torch_function, has_torch_function_unary
from pytpu.utils.checkpoint import SAC_IGNORED_OPS, CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from pytpu.utils.flop_counter import FlopCounterMode

aten = torch.ops.aten


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(8), nn.Linear(8, 24, bias=False)
        self.conv = nn.Conv1d(8, 8, 1)
        self.up, self.down, self.dropout = nn.Linear(8, 16), nn.Linear(16, 8), nn.Dropout(0.3)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.dropout(F.scaled_dot_product_attention(q, k, v))
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2).softmax(-1)
        return self.down(self.dropout(F.gelu(self.up(x)))) + x @ x.transpose(1, 2) @ x


def _run(block, x, policy=None):
    """Return the output, the gradients, and a random number drawn afterwards."""
    torch.manual_seed(3)
    block.zero_grad()
    x = x.clone().requires_grad_()
    if policy is None:
        y = block(x)
    else:
        context_fn = functools.partial(create_selective_checkpoint_contexts, policy)
        y = checkpoint(block, x, use_reentrant=False, context_fn=context_fn)
    y.square().mean().backward()
    return [y.detach(), x.grad, *(p.grad for p in block.parameters()), torch.rand(2, device=x.device)]


def _alternating():
    calls = {False: 0, True: 0}

    def policy(ctx, op, *args, **kwargs):
        calls[ctx.is_recompute] += 1
        return CheckpointPolicy.PREFER_SAVE if calls[ctx.is_recompute] % 2 else CheckpointPolicy.MUST_RECOMPUTE

    return policy


POLICIES = {
    "matrix products and attention": [
        aten.mm.default,
        aten.addmm.default,
        aten._scaled_dot_product_efficient_attention.default,
    ],
    "everything": lambda ctx, op, *args, **kwargs: CheckpointPolicy.MUST_SAVE,
    "nothing": lambda ctx, op, *args, **kwargs: CheckpointPolicy.PREFER_RECOMPUTE,
    "everything on the host": lambda ctx, op, *args, **kwargs: CheckpointPolicy.MUST_CPU_OFFLOAD,
    "dropout and convolution": lambda ctx, op, *args, **kwargs: (
        op in (aten.convolution.default, aten.native_dropout.default)
    ),
    "every other operator": None,
}


@pytest.mark.parametrize("name", POLICIES)
def test_gradients_do_not_depend_on_the_policy(name, device):
    block, x = Block().to(device), torch.randn(2, 5, 8, device=device)
    plain = _run(block, x)
    for got, want in zip(_run(block, x, POLICIES[name] or _alternating()), plain):
        if device == "cpu":
            assert torch.equal(got, want)
        else:
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


class _Log(torch.overrides.TorchFunctionMode):
    """Record the names of the functions that run, in order."""

    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _within(outer, inner):
    with outer, inner:
        yield


def test_kept_operators_run_once_and_others_twice():
    w = torch.randn(4, 4, requires_grad=True)

    log = _Log()

    def f(x):
        return torch.sin(torch.mm(torch.cos(x), w)).exp()

    def context_fn():
        return [_within(log, context) for context in create_selective_checkpoint_contexts([aten.mm.default])]

    x = torch.ones(4, 4, requires_grad=True)
    y = checkpoint(f, x, use_reentrant=False, context_fn=context_fn, early_stop=False).sum()
    first = list(log.names)
    y.backward()
    again = log.names[len(first) :]
    assert [first.count(n) for n in ("cos", "mm", "sin", "exp")] == [1, 1, 1, 1]
    assert [again.count(n) for n in ("cos", "mm", "sin", "exp")] == [1, 0, 1, 1]


def test_the_second_run_stops_when_nothing_more_is_needed():
    runs = []

    def f(x):
        y = x.cos().mm(x)
        runs.append(True)
        return y

    context_fn = functools.partial(create_selective_checkpoint_contexts, [aten.mm.default])
    x = torch.rand(3, 3, requires_grad=True)
    checkpoint(f, x, use_reentrant=False, context_fn=context_fn).sum().backward()
    expected = x.grad.clone()
    x.grad = None
    x.cos().mm(x).sum().backward()
    assert torch.equal(x.grad, expected) and len(runs) == 1


def test_policies_see_the_operators_of_pytorch():
    seen = []

    def policy(ctx, op, *args, **kwargs):
        seen.append((ctx.is_recompute, str(op)))
        return False

    _run(Block(), torch.randn(2, 5, 8), policy)
    names = [name for again, name in seen if not again]
    # The second run follows the decisions of the first one.
    assert len(names) == len(seen)
    assert names[:4] == ["aten.native_layer_norm.default", "aten.t.default", "aten.mm.default", "aten.chunk.default"]
    assert "aten.addmm.default" in names and "aten.bmm.default" in names and "aten.convolution.default" in names
    assert not SAC_IGNORED_OPS & {op for op in map(aten.__getattr__, ["mm", "add"])}


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (
            lambda x: torch.nn.functional.linear(x, x).sin().mul_(2),
            ["aten.t.default", "aten.mm.default", "aten.sin.default", "aten.mul_.Tensor"],
        ),
        (lambda x: torch.var_mean(x)[0], ["aten.var_mean.correction"]),
        (lambda x: x.std(), ["aten.std.correction"]),
        (
            lambda x: torch.nn.functional.linear(x, x).relu_(),
            ["aten.t.default", "aten.mm.default", "aten.relu_.default"],
        ),
    ],
    ids=["linear", "var_mean", "std", "relu_"],
)
@pytest.mark.parametrize("keep", [False, True])
def test_policies_see_views_and_operators_in_place(function, names, keep):
    seen = []

    def policy(ctx, op, *args, **kwargs):
        seen.append(str(op))
        return keep and op in (aten.t.default, aten.mul_.Tensor, aten.relu_.default)

    context_fn = functools.partial(create_selective_checkpoint_contexts, policy)
    x = torch.rand(3, 3, requires_grad=True)
    checkpoint(function, x, use_reentrant=False, context_fn=context_fn).sum().backward()
    assert seen == names
    expected = x.grad.clone()
    x.grad = None
    function(x).sum().backward()
    assert torch.equal(x.grad, expected)


def test_results_changed_in_place_are_refused():
    def f(x):
        y = x.mm(x)
        return y.mul_(2).sin()

    x = torch.rand(3, 3, requires_grad=True)
    context_fn = functools.partial(create_selective_checkpoint_contexts, [aten.mm.default])
    y = checkpoint(f, x, use_reentrant=False, context_fn=context_fn).sum()
    with pytest.raises(RuntimeError, match="cached during selective activation checkpoint has been mutated"):
        y.backward()


def test_a_second_backward_is_refused():
    x = torch.rand(3, 3, requires_grad=True)
    context_fn = functools.partial(create_selective_checkpoint_contexts, [aten.mm.default])
    y = checkpoint(lambda x: x.mm(x).sin(), x, use_reentrant=False, context_fn=context_fn).sum()
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.backward()


def test_a_loss_of_a_subclass_goes_backward():
    class Loss(torch.Tensor):
        pass

    x = torch.rand(3, 3, requires_grad=True)
    context_fn = functools.partial(create_selective_checkpoint_contexts, [aten.mm.default])
    y = checkpoint(lambda x: x.mm(x).sin(), x, use_reentrant=False, context_fn=context_fn).sum()
    y.as_subclass(Loss).backward()
    expected = x.grad.clone()
    x.grad = None
    x.mm(x).sin().sum().backward()
    assert torch.equal(x.grad, expected)


def test_functions_that_ask_for_overrides_run_once():
    # As libraries write them: decorated, with a question for overrides of their own.
    def traced(function):
        return functools.wraps(function)(lambda *args: function(*args))

    calls = []

    @traced
    def squared(x):
        if has_torch_function_unary(x):
            return handle_torch_function(squared, (x,), x)
        calls.append(1)
        return x.mm(x)

    operators = []

    def policy(ctx, op, *args, **kwargs):
        operators.append((ctx.is_recompute, op))
        return CheckpointPolicy.MUST_SAVE

    x = torch.rand(3, 3, requires_grad=True)
    context_fn = functools.partial(create_selective_checkpoint_contexts, policy)
    checkpoint(lambda x: squared(x).sin(), x, use_reentrant=False, context_fn=context_fn).sum().backward()
    assert len(calls) == 2 and operators == [(False, aten.mm.default), (False, aten.sin.default)]
    expected = x.grad.clone()
    x.grad = None
    x.mm(x).sin().sum().backward()
    assert torch.equal(x.grad, expected)
    with FlopCounterMode(display=False) as counter:
        squared(x)
    assert counter.get_total_flops() == 2 * 3**3


def test_lists_must_hold_overloads():
    with pytest.raises(ValueError, match="Please update the OpOverloadPacket to a specific OpOverload"):
        create_selective_checkpoint_contexts([aten.mm])
    with pytest.raises(TypeError, match="either a function or a list of ops"):
        create_selective_checkpoint_contexts(5)


def test_names_of_operators_inside_pytorch_cannot_be_called():
    with pytest.raises(NotImplementedError, match="_scaled_dot_product_flash_attention"):
        aten._scaled_dot_product_flash_attention(1, 2, 3)
