"""Models and training steps for tests of sharded parameters."""

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn
from pytpu.distributed.fsdp import FSDPModule, fully_shard
from pytpu.distributed.tensor import DTensor
from pytpu.utils.checkpoint import checkpoint

#: Samples of a step on all ranks.
BATCH, SYMBOLS, WIDTH = 8, 11, 8


class Block(nn.Module):
    """A block of a small transformer without attention. ``mode`` checkpoints its activations."""

    def __init__(self, width=WIDTH, mode=None):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mode = mode

    def compute(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))

    def forward(self, x):
        if self.mode is None:
            return self.compute(x)
        return checkpoint(self.compute, x, use_reentrant=self.mode == "reentrant")


class Attention(nn.Module):
    """A block with causal attention."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.norm, self.block = nn.LayerNorm(width), Block(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x):
        y = self.norm(x)
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf"), device=x.device).triu(1)
        return self.block(x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0])


class Gpt(nn.Module):
    """A model whose last layer has the weight of its first. ``outer`` checkpoints whole blocks."""

    def __init__(self, block=Attention, mode=None, outer=None):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, WIDTH)
        self.layers = nn.ModuleList(block() if mode is None else block(WIDTH, mode) for _ in range(2))
        self.head = nn.Linear(WIDTH, SYMBOLS, bias=False)
        self.head.weight = self.embedding.weight
        self.outer = outer

    def forward(self, x):
        x = self.embedding(x)
        for layer in self.layers:
            if self.outer is None:
                x = layer(x)
            else:
                x = checkpoint(layer, x, use_reentrant=self.outer == "reentrant")
        return self.head(x)


def make(kind="gpt", device="cpu", **options):
    torch.manual_seed(0)
    if kind == "gpt":
        return Gpt(**options).to(device)
    # 5 and 3 rows are not divided evenly.
    layers = [nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 3)]
    return nn.Sequential(*layers).to(device)


def shard(model, mesh, **options):
    """Shard the layers of a model, and then the model."""
    for layer in getattr(model, "layers", model):
        if any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def batch(kind, step):
    generator = torch.Generator().manual_seed(100 + step)
    if kind == "gpt":
        text = torch.randint(0, SYMBOLS, (BATCH, 7), generator=generator)
        return text[:, :-1], text[:, 1:]
    return torch.randn(BATCH, 6, generator=generator), torch.randint(0, 3, (BATCH,), generator=generator)


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())


def train(model, kind="gpt", device="cpu", steps=4, rank=0, ranks=1, parts=1, optimizer=None, group=None):
    """Train a model on a rank's part of each batch, in ``parts`` backward passes. Return the means of losses."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0
        for part in range(parts):
            x, y = (each.chunk(parts)[part].chunk(ranks)[rank].to(device) for each in batch(kind, step))
            if isinstance(model, FSDPModule):
                model.set_requires_gradient_sync(part == parts - 1)
            loss = loss_of(model, x, y) / parts
            loss.backward()
            total += loss.detach().cpu()
        optimizer.step()
        if ranks > 1:
            dist.all_reduce(total, dist.ReduceOp.AVG, group=group)
        losses.append(total.item())
    return losses


def whole(x):
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().cpu()


def values(model):
    return [whole(p) for p in model.parameters()]
