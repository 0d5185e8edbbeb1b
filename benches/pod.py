"""Plans a training step of a llama on machines of many chips, and prints a row of docs/performance/pods.md for each.

python benches/pod.py v5e:8x8                                # sharded parameters (FSDP2)
python benches/pod.py v5e:8x8 v5p:4x4x4 --mode data          # whole parameters on each chip, gradients are summed
python benches/pod.py v5e:8x8 --mode tensor --tensor 8       # blocks divided over 8 chips (tensor parallel)
python benches/pod.py v5e:8x8 --mode both --tensor 8         # parameters sharded over the others, too
python benches/pod.py v5p:2x2x1 --mode one                   # one chip
python benches/pod.py v5e:16x16 --axes                       # a sum over the chips of parts of the machine

It needs libtpu, and no TPU. Nothing runs: all numbers are the compiler's, or are computed from them. Each machine is a
process of its own.
"""

import argparse
import json
import subprocess
import sys
import time

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn
from pytpu.distributed.device_mesh import init_device_mesh
from pytpu.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from pytpu.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from pytpu.nn import functional as F
from pytpu.utils.checkpoint import checkpoint

HEAD = 64


class Attention(nn.Module):
    """Attention with rotary positions, and four heads of queries for each of keys and values."""

    def __init__(self, width):
        super().__init__()
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, width // 4, bias=False), nn.Linear(width, width // 4, bias=False)

    def forward(self, x, cosine, sine):
        def heads(y):
            return y.view(x.shape[0], x.shape[1], -1, HEAD).transpose(1, 2)

        def turned(y):
            a, b = y.chunk(2, -1)
            return y * cosine + torch.cat([-b, a], -1) * sine

        q, k, v = turned(heads(self.q(x))), turned(heads(self.k(x))), heads(self.v(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class FeedForward(nn.Module):
    """The feed-forward part of a block: `down(silu(gate(x)) * up(x))`."""

    def __init__(self, width):
        super().__init__()
        self.gate, self.up = nn.Linear(width, 4 * width, bias=False), nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A layer."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention, self.feed_forward = Attention(width), FeedForward(width)

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.norm1(x), cosine, sine)
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    """A llama whose embedding is also its last layer, as llama 3.2 of 1B parameters."""

    def __init__(self, layers, width, vocabulary, checkpoint):
        super().__init__()
        self.checkpoint = checkpoint
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.RMSNorm(width)

    def forward(self, tokens):
        x = self.embedding(tokens)
        angles = torch.arange(tokens.shape[1], device=x.device)[:, None] / 5e5 ** (
            torch.arange(0, HEAD, 2, device=x.device) / HEAD
        )
        angles = torch.cat([angles, angles], -1)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            if self.checkpoint:
                x = checkpoint(layer, x, cosine, sine, use_reentrant=False)
            else:
                x = layer(x, cosine, sine)
        return F.linear(self.norm(x), self.embedding.weight)


def divided(model, mesh):
    """Divide the blocks of a model over the chips of a mesh of one dimension."""
    plan = {"attention.out": RowwiseParallel(), "feed_forward.down": RowwiseParallel()}
    for name in ("attention.q", "attention.k", "attention.v", "feed_forward.gate", "feed_forward.up"):
        plan[name] = ColwiseParallel()
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)


def sharded(model, mesh):
    """Shard the parameters of a model over the chips of a mesh."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def loss(model, tokens, mode):
    """Return the loss of sequences. Nothing else stays alive."""
    with torch.autocast("tpu", torch.bfloat16, enabled=mode in ("one", "data", "tensor")):
        scores = model(tokens[:, :-1])
    return F.cross_entropy(scores.float().flatten(0, 1), tokens[:, 1:].flatten())


def train(options):
    """Record two training steps."""
    with torch.device("meta"):
        model = Llama(options.layers, options.width, options.vocabulary, options.checkpoint)
    parameters = sum(p.numel() for p in model.parameters())
    if options.mode != "one":
        dist.init_process_group()
        size = dist.get_world_size()
    if options.mode == "fsdp":
        sharded(model, init_device_mesh("tpu", (size,)))
    if options.mode in ("tensor", "both"):
        mesh = init_device_mesh("tpu", (size // options.tensor, options.tensor), mesh_dim_names=("data", "tensor"))
        divided(model, mesh["tensor"])
        if options.mode == "both":
            sharded(model, mesh["data"])
    model.to_empty(device="tpu")
    if options.mode == "data":
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        tokens = torch.zeros(options.batch, options.length + 1, dtype=torch.int32).to("tpu").long()
        loss(model, tokens, options.mode).backward()
        optimizer.step()
        optimizer.zero_grad()
    return parameters


def row(topology, options):
    """Print the numbers of a machine as JSON."""
    begin = time.time()
    with torch.tpu.plan(topology) as plan:
        parameters = train(options)
    last = plan.steps[-1].programs
    assert len(last) == 1, plan.steps
    program = plan.programs[last[0]]
    if topology in program.errors:
        raise SystemExit(program.errors[topology])
    r = program.reports[topology]
    if options.text:
        with open(options.text, "w") as file:
            file.write(program.stablehlo)
    fields = {k: v for k, v in r.to_dict().items() if isinstance(v, (int, float, str))}
    fields.update(parameters=parameters, ops=program.ops, ranks=program.ranks, whole_seconds=time.time() - begin)
    fields["collectives"] = r.to_dict()["collectives"]
    print(json.dumps(fields))


def axes(topology):
    """Print the algorithm and the time of a sum of 64 MB over the chips of parts of a machine."""
    sizes = [int(n) for n in topology.split(":")[1].split("x")]
    size = 1
    for n in sizes:
        size *= n
    ranks = torch.arange(size).view(*reversed(sizes))
    lines = {
        f"dimension {i}, {n} chips": ranks.movedim(len(sizes) - 1 - i, -1).reshape(-1, n) for i, n in enumerate(sizes)
    }
    side = max(d for d in range(1, sizes[0] + 1) if d * d <= sizes[0])
    square = ranks[..., None].reshape(*ranks.shape[:-2], ranks.shape[-2] // side, side, ranks.shape[-1] // side, side)
    lines[f"a square of {side}x{side} chips"] = square.transpose(-3, -2).reshape(-1, side * side)
    lines["all chips"] = ranks.reshape(1, -1)
    for name, partition in lines.items():
        with torch.tpu.plan(topology) as plan:
            dist.init_process_group()
            group, _ = dist.new_subgroups_by_enumeration(partition.tolist())
            x = torch.zeros(32 << 20, dtype=torch.bfloat16, device="tpu")
            dist.all_reduce(x, group=group)
            torch.tpu.synchronize()
            dist.destroy_process_group()
        for c in plan.programs[-1].reports[topology].collectives:
            links = c.links or "not said"
            print(f"| {topology} | {name} | {c.kind} | {links} | {1e3 * c.seconds:.3g} ms |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("topology", nargs="+")
    parser.add_argument("--mode", choices=("fsdp", "data", "tensor", "both", "one"), default="fsdp")
    parser.add_argument("--tensor", type=int, default=8, help="chips that a block is divided over")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--batch", type=int, default=1, help="sequences of a chip")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--checkpoint", action="store_true", help="compute layers again in backward")
    parser.add_argument("--text", help="write the StableHLO text there")
    parser.add_argument("--axes", action="store_true")
    parser.add_argument("--json", action="store_true", help="the numbers of one machine as JSON, in this process")
    options = parser.parse_args()
    if options.axes:
        return [axes(topology) for topology in options.topology]
    if options.json:
        return row(options.topology[0], options)
    print("| machine | chips | step | compute | memory | network | beside work | arguments | temporary | collectives |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for topology in options.topology:
        given = [a for a in sys.argv[1:] if a not in options.topology]
        done = subprocess.run([sys.executable, __file__, topology, "--json", *given], capture_output=True, text=True)
        if done.returncode:
            print(f"| {topology} | refused: {done.stderr.strip().splitlines()[-1]} |")
            continue
        r = json.loads(done.stdout.splitlines()[-1])
        milliseconds = (f"{1e3 * r[k]:.3g} ms" for k in ("seconds", "compute_seconds", "memory_seconds"))
        network = (f"{1e3 * r[k]:.3g} ms" for k in ("network_seconds", "hidden_seconds"))
        memory = (f"{r[k] / 1e6:.4g} MB" for k in ("argument_bytes", "temp_bytes"))
        kinds = ", ".join(
            f"{c['count']:g} {c['kind']}{' (asynchronous)' if c['is_async'] else ''}" for c in r["collectives"]
        )
        print("|", " | ".join([topology, str(r["ranks"]), *milliseconds, *network, *memory, kinds]), "|", flush=True)
        print(f"  compiled in {r['compile_seconds']:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
