"""Trains a small GPT, letter by letter, on the source of Python's own standard library, and lets it write some.

    python examples/char_gpt.py                 # on "tpu": an accelerator, else XLA on this CPU
    python examples/char_gpt.py --device cpu    # the native kernels
    python examples/char_gpt.py --layers 6 --heads 6 --width 384 --block 256 --batch-size 64 --dropout 0.2
    python examples/char_gpt.py --text my_book.txt --steps 2000

The shape is nanoGPT's: pre-norm blocks, learned positions, one matrix for embedding and head.
"""

import argparse
import math
import pathlib
import sysconfig
import time

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F


class Attention(nn.Module):
    """Causal self-attention of several heads."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        batch, block, width = x.shape
        q, k, v = (t.view(batch, block, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, dim=2))
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return F.dropout(self.proj(y.transpose(1, 2).reshape(batch, block, width)), self.dropout, self.training)


class Block(nn.Module):
    """Attention and two linear layers, each beside a shortcut."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln1, self.attention = nn.LayerNorm(width), Attention(width, heads, dropout)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"up": nn.Linear(width, 4 * width), "proj": nn.Linear(4 * width, width)})
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.dropout(self.mlp["proj"](F.gelu(self.mlp["up"](self.ln2(x)))))


class GPT(nn.Module):
    """Logits of the next letter at each place."""

    def __init__(self, vocabulary, block, layers, heads, width, dropout):
        super().__init__()
        self.block = block
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight
        for name, p in self.named_parameters():
            if name.endswith("proj.weight"):  # they add up over the layers
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers))
            elif p.dim() >= 2:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, letters):
        places = torch.arange(letters.shape[1], device=letters.device)
        x = self.dropout(self.token(letters) + self.position(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))

    @torch.no_grad()
    def write(self, letters, count, temperature=0.8):
        """Appends `count` letters, one by one. The window has a fixed size, so that nothing is compiled twice."""
        window = F.pad(letters, (0, self.block - letters.shape[1]))
        at, out = letters.shape[1], []
        for _ in range(count):
            if at == self.block:
                window, at = window.roll(-1, 1), at - 1
            logits = self(window)[:, at - 1] / temperature
            window[:, at] = torch.multinomial(F.softmax(logits, -1), 1).squeeze(1)
            out.append(window[:, at].clone())
            at += 1
        return torch.stack(out, 1)


def standard_library(limit=1_000_000):
    """The first million letters of Python's standard library, file by file in alphabetical order."""
    text, size = [], 0
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        source = path.read_text(encoding="utf-8", errors="ignore")
        source = "".join(c for c in source if c == "\n" or " " <= c <= "~")
        text.append(source)
        size += len(source)
        if size >= limit:
            break
    return "".join(text)[:limit]


def batches(data, block, size, device):
    """Endless pairs (letters, the letters after them), from random places."""
    offsets = torch.arange(block + 1)
    while True:
        start = torch.randint(len(data) - block, (size, 1))
        chunk = data[start + offsets].to(device)
        yield chunk[:, :-1], chunk[:, 1:]


def optimizer_for(model, lr):
    """AdamW that decays matrices only."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def train(model, data, optimizer, schedule, steps, batch_size, device, report):
    """Trains and tells `report(step, loss)` after each step; the loss stays on the device."""
    model.train()
    for step, (x, y) in zip(range(1, steps + 1), batches(data, model.block, batch_size, device)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        report(step, loss.detach())


@torch.no_grad()
def mean_loss(model, data, batch_size, device, count=20):
    """Loss on `count` batches of text that was not trained on."""
    model.eval()
    total = torch.zeros((), device=device)
    for _, (x, y) in zip(range(count), batches(data, model.block, batch_size, device)):
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    return total.item() / count


def schedule_for(optimizer, steps):
    """A short rise, then half a cosine down to a tenth."""
    warm = max(1, steps // 20)

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        part = min(1.0, (step - warm) / max(1, steps - warm))
        return 0.1 + 0.45 * (1 + math.cos(math.pi * part))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="tpu", choices=["cpu", "tpu"])
    parser.add_argument(
        "--mode", default="fused", choices=["fused", "strict", "debug"], help="how eager ops are run on tpu"
    )
    parser.add_argument("--text", type=pathlib.Path, help="a text file (default: the standard library's source)")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--block", type=int, default=64, help="letters that the model sees at once")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=int, default=300, help="letters to write at the end")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    if args.device == "tpu":
        torch.tpu.set_eager_mode(args.mode)
    text = args.text.read_text(encoding="utf-8") if args.text else standard_library()
    letters = sorted(set(text))
    number = {c: i for i, c in enumerate(letters)}
    data = torch.tensor([number[c] for c in text])
    held_out = len(data) // 10
    print(f"{len(text)} letters, {len(letters)} different ones")

    model = GPT(len(letters), args.block, args.layers, args.heads, args.width, args.dropout)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} million parameters")
    model.to(args.device)
    optimizer = optimizer_for(model, args.lr)
    every = max(1, args.steps // 10)
    total, started = torch.zeros((), device=args.device), time.perf_counter()

    def report(step, loss):
        nonlocal total, started
        total = total + loss
        if step % every == 0:
            mean, now = total.item() / every, time.perf_counter()
            print(
                f"step {step:5}/{args.steps}  loss {mean:.4f}  {1e3 * (now - started) / every:.1f} ms a step",
                flush=True,
            )
            total, started = torch.zeros((), device=args.device), now

    train(
        model,
        data[:-held_out],
        optimizer,
        schedule_for(optimizer, args.steps),
        args.steps,
        args.batch_size,
        args.device,
        report,
    )
    print(f"\nheld-out loss  {mean_loss(model, data[-held_out:], args.batch_size, args.device):.4f} nats a letter")
    if args.write:
        start = torch.tensor([[number["\n"]]], device=args.device)
        print("".join(letters[i] for i in model.write(start, args.write)[0].tolist()))


if __name__ == "__main__":
    main()
