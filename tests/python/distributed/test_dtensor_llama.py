"""A step of a small Llama on sharded tensors: no op is without a rule, and the loss is that of one process."""

from contextlib import nullcontext

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn
from pytpu.distributed.device_mesh import init_device_mesh
from pytpu.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from pytpu.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

WORDS, WIDTH, HEADS, HIDDEN, LENGTH = 32, 16, 4, 24, 8


def rotated(x, angles):
    """Turn pairs of features by an angle for each place."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.wv, self.wo = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, angles):
        heads = [w(x).unflatten(-1, (-1, WIDTH // HEADS)) for w in (self.wq, self.wk, self.wv)]
        q, k, v = rotated(heads[0], angles), rotated(heads[1], angles), heads[2]
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.w2 = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention, self.feed_forward = Attention(), FeedForward()

    def forward(self, x, angles):
        x = x + self.attention(self.attention_norm(x), angles)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, WIDTH), nn.RMSNorm(WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.output = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens, angles):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, angles)
        return self.output(self.norm(x))


def case(layers):
    torch.manual_seed(0)
    model = Llama(layers)
    tokens = torch.randint(0, WORDS, (4, LENGTH + 1))
    angles = torch.outer(torch.arange(LENGTH), 0.1 ** torch.arange(WIDTH // HEADS // 2))
    return model, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), angles


def train(model, tokens, targets, angles, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
    losses = []
    for _ in range(steps):
        # Sharded targets need no conversion.
        with nullcontext() if isinstance(targets, DTensor) else loss_parallel():
            loss = nn.functional.cross_entropy(model(tokens, angles).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [(x.full_tensor() if isinstance(x, DTensor) else x).item() for x in losses]


def by_tensors(model, mesh, is_local):
    """Shard heads, hidden features and words. The sequence is sharded between them."""
    parts = {
        "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=is_local),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
    }
    parallelize_module(model, mesh, parts)
    for layer in model.layers:
        inputs = PrepareModuleInput(input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None))
        column = ColwiseParallel(use_local_output=is_local)
        row = RowwiseParallel(output_layouts=Shard(1), use_local_output=is_local)
        plan = {
            "attention_norm": SequenceParallel(),
            "attention": inputs,
            "attention.wq": column,
            "attention.wk": column,
            "attention.wv": column,
            "attention.wo": row,
            "ffn_norm": SequenceParallel(),
            "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "feed_forward.w1": column,
            "feed_forward.w2": row,
            "feed_forward.w3": column,
        }
        parallelize_module(layer, mesh, plan)
    return model


def by_parameters(model, mesh):
    def shard(name, module, mesh):
        for key, parameter in list(module.named_parameters(recurse=False)):
            module.register_parameter(key, nn.Parameter(distribute_tensor(parameter.detach(), mesh, [Shard(0)])))

    return distribute_module(model, mesh, shard)


def sharded(kind, device, layers, steps):
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    model, tokens, targets, angles = case(layers)
    if kind == "parameters":
        model = by_parameters(model, mesh)
        tokens, targets = (distribute_tensor(t, mesh, [Shard(0)]) for t in (tokens, targets))
        angles = distribute_tensor(angles, mesh)
    else:
        model = by_tensors(model, mesh, is_local=kind == "parts")
        tokens, targets, angles = (t.to(device) for t in (tokens, targets, angles))
        if kind == "tensors":
            angles = distribute_tensor(angles, mesh)
    before = torch._C._sharded_without_rule()
    losses = train(model, tokens, targets, angles, steps)
    return losses, before == (after := torch._C._sharded_without_rule()) or after


@pytest.mark.parametrize("kind", ["parameters", "tensors", "parts"])
def test_every_op_of_a_step_has_a_rule(pools, kind):
    expected = train(*case(2), 3)
    for losses, has_rules in pools(2).run(sharded, kind, "cpu", 2, 3):
        assert has_rules is True
        assert losses == pytest.approx(expected, rel=1e-4)


def test_every_op_of_a_step_has_a_rule_on_tpu(pools):
    expected = train(*case(1), 1)
    for losses, has_rules in pools(2).run(sharded, "tensors", "tpu", 1, 1):
        assert has_rules is True
        assert losses == pytest.approx(expected, rel=1e-4)
