"""Training steps for `run.py`, a process each: their losses in a mode, their time and memory on the device, or their
plan.

python steps.py losses fused
python steps.py measure gpt
python steps.py plan gpt v5e:2x2
"""

import json
import statistics
import sys
import time

import pytpu as torch
import pytpu.nn.functional as F
from pytpu import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (a.unflatten(2, (self.heads, -1)).transpose(1, 2) for a in self.qkv(self.ln1(x)).chunk(3, dim=2))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=512, width=128, heads=2, layers=2, length=128):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.head(self.blocks(self.token(x) + self.position.weight[: x.shape[1]])).flatten(0, 1)


def make(model):
    """A model, its input and its targets, on the host."""
    torch.manual_seed(0)
    if model == "mlp":
        net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        return net, torch.randn(128, 784), torch.randint(0, 10, (128,))
    return GPT(), torch.randint(0, 512, (8, 128)), torch.randint(0, 512, (8 * 128,))


def training(model, device):
    """A function that does one step and gives its loss, which it does not read."""
    net, x, y = make(model)
    net, x, y = net.to(device), x.to(device), y.to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def step():
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def losses(mode):
    torch.tpu.set_eager_mode(mode)
    torch.set_float32_matmul_precision("highest")
    for model in ("mlp", "gpt"):
        ours, host = training(model, "tpu"), training(model, "cpu")
        pairs = [(ours().item(), host().item()) for _ in range(4)]
        worst = max(abs(a - b) / abs(b) for a, b in pairs)
        assert worst < 2e-3, f"{model}: losses {pairs} on tpu and cpu"
    print(f"losses of four steps are those of cpu to {worst:.1e}")


def measure(model):
    step = training(model, "tpu")
    for _ in range(5):
        step().item()
    torch.tpu.reset_peak_memory_stats()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(10):
            loss = step()
        loss.item()
        times.append((time.perf_counter() - start) / 10)
    print(json.dumps({"seconds": statistics.median(times), "bytes": torch.tpu.max_memory_allocated()}))


def plan(model, topology):
    with torch.tpu.plan(topology) as planned:
        step = training(model, "tpu")
        for _ in range(3):
            step()
    last = planned.steps[-1]
    reports = [planned.programs[i].reports[topology] for i in last.programs]
    print(json.dumps({"seconds": sum(r.seconds for r in reports), "bytes": last.total_bytes[topology]}))


if __name__ == "__main__":
    {"losses": losses, "measure": measure, "plan": plan}[sys.argv[1]](*sys.argv[2:])
