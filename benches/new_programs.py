"""Programs that are new to device "tpu": what their first steps take, and steps that keep changing.

    python benches/new_programs.py                   # all rows, each in a process of its own, without the disk cache
    python benches/new_programs.py graph lstm        # some
    TORCHTPU_INTERPRET=0 python benches/new_programs.py    # with every program compiled when it first comes

A row prints the milliseconds of each step on `cpu` and on `tpu`, and what the engine did.
"""

import os
import subprocess
import sys
import time

import pytpu as torch
import pytpu.nn.functional as F
from pytpu import nn


def attend(scores, target, n):
    """Softmax of the scores of edges that end in the same node."""
    index = target[:, None].expand_as(scores)
    most = torch.full((n, scores.shape[1]), float("-inf"), device=scores.device).scatter_reduce(
        0, index, scores, "amax"
    )
    e = (scores - most.index_select(0, target)).exp()
    return e / (torch.zeros_like(most).index_add(0, target, e)[target] + 1e-16)


class GraphAttention(nn.Module):
    """A layer in which nodes attend to their neighbours."""

    def __init__(self, n_in, n_out, heads=2):
        super().__init__()
        self.heads, self.n_out = heads, n_out
        self.weight = nn.Linear(n_in, heads * n_out, bias=False)
        self.score = nn.Parameter(torch.randn(2, heads, n_out) * 0.1)

    def forward(self, x, edges):
        """Features of the nodes, `(n, n_in)` to `(n, heads * n_out)`; `edges` is `(2, e)`."""
        z = self.weight(x).view(-1, self.heads, self.n_out)
        source, target = edges
        scores = (z * self.score[0]).sum(-1)[source] + (z * self.score[1]).sum(-1)[target]
        weights = attend(F.leaky_relu(scores, 0.2), target, x.shape[0])
        return torch.zeros_like(z).index_add_(0, target, z[source] * weights.unsqueeze(-1)).flatten(1)


def graph(device):
    """A training step of a graph network; the graph has other edges in each."""
    n = 60
    edges = torch.randint(0, n, (2, 480)).to(device)
    x, y = torch.randn(n, 8).to(device), torch.randint(0, 4, (n,)).to(device)
    first, second = GraphAttention(8, 8).to(device), GraphAttention(16, 8).to(device)
    last = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters(), *last.parameters()], 1e-2)

    def step(i):
        e = edges[:, : 480 - 7 * i]
        h = F.elu(first(x, e))
        h = h + F.elu(second(h, e))
        loss = F.cross_entropy(last(h), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, 40


def lstm(device):
    """A training step of a loop over 100 cells."""
    cell, head = nn.LSTMCell(16, 32).to(device), nn.Linear(32, 1).to(device)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], 1e-2)
    x, y = torch.randn(100, 8, 16).to(device), torch.randn(8, 1).to(device)

    def step(i):
        h, c = torch.zeros(8, 32, device=device), torch.zeros(8, 32, device=device)
        for t in range(100):
            h, c = cell(x[t], (h, c))
        loss = F.mse_loss(head(h), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, 1


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, past=None):
        """`(n, t, width)` to the same, and the keys and values so far."""
        n, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal and t > 1)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
        return x + self.mlp(self.norm2(x)), (k, v)


class VisionTransformer(nn.Module):
    """ViT-Ti/16 for images of 224 x 224."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 192, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, 192))
        self.places = nn.Parameter(torch.randn(1, 197, 192) * 0.02)
        self.blocks = nn.ModuleList([Block(192, 3, False) for _ in range(12)])
        self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, 1000)

    def forward(self, x):
        """`(n, 3, 224, 224)` to `(n, 1000)`."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for block in self.blocks:
            x, _ = block(x)
        return self.head(self.norm(x)[:, 0])


def vit(device):
    """The first training step of ViT-Ti/16, batch 8."""
    model = VisionTransformer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x, y = torch.randn(8, 3, 224, 224).to(device), torch.randint(0, 1000, (8,)).to(device)

    def step(i):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, 1


def decode(device):
    """A token of a decoder whose cache grows by concatenation."""
    model = nn.ModuleList([Block(128, 4, True) for _ in range(4)]).to(device)
    embedding, head = nn.Embedding(256, 128).to(device), nn.Linear(128, 256).to(device)
    state = {"token": torch.randint(0, 256, (1, 16)).to(device), "past": [None] * len(model)}

    def step(i):
        with torch.no_grad():
            x = embedding(state["token"])
            for k, block in enumerate(model):
                x, state["past"][k] = block(x, state["past"][k])
            state["token"] = head(x[:, -1:]).argmax(-1)
        return state["token"].item()

    return step, 64


def loop(device):
    """A training step of an MLP that repeats: its first twelve."""
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x, y = torch.randn(128, 784).to(device), torch.randint(0, 10, (128,)).to(device)

    def step(i):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, 12


ROWS = {f.__name__: f for f in (graph, lstm, vit, decode, loop)}


def row(name, device):
    """Runs one row in this process and prints it."""
    torch.manual_seed(0)
    step, steps = ROWS[name](device)
    torch.ones(1).to(device).add(1).item()  # the plugin is loaded
    taken = []
    for i in range(steps):
        start = time.perf_counter()
        step(i)
        taken.append((time.perf_counter() - start) * 1e3)
    rest = sorted(taken[1:])
    text = f"{name:8} {device:4} first {taken[0]:9.1f} ms"
    if rest:
        text += f", then median {rest[len(rest) // 2]:8.2f} ms, most {rest[-1]:8.1f} ms, last {taken[-1]:8.2f} ms"
    if device == "tpu":
        m = torch.tpu.metrics()
        text += (
            f"; {m['segments_interpreted']} interpreted, {m['segments_executed']} launched, {m['compilations']} "
            "compiled"
        )
    print(text, flush=True)


def main():
    """Runs the rows that were asked for, each in a process of its own."""
    if sys.argv[1:2] == ["--row"]:
        return row(sys.argv[2], sys.argv[3])
    environment = {**os.environ, "TORCHTPU_CACHE": "0"}
    for name in sys.argv[1:] or ROWS:
        for device in ("cpu", "tpu"):
            subprocess.run([sys.executable, __file__, "--row", name, device], env=environment, check=True)


if __name__ == "__main__":
    main()
