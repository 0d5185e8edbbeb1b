"""Trains a small convolutional network on 1,797 real handwritten digits.

python examples/digits.py                        # on "tpu": an accelerator, else XLA on this CPU
python examples/digits.py --device cpu           # the native kernels
python examples/digits.py --mode debug           # every op by itself, checked
"""

import argparse
import sys
import time

from sklearn.datasets import load_digits

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F
from pytpu.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    """Two convolutions, pooling, two linear layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


def datasets():
    """(training set, held-out set)."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64)
    return random_split(TensorDataset(images, labels), [1437, 360])


class Progress:
    """One line an epoch that updates itself on a terminal, and is written once elsewhere."""

    def __init__(self, epochs, steps):
        self.epochs, self.steps = epochs, steps
        self.live = sys.stdout.isatty()

    def update(self, epoch, step):
        if self.live:
            done = 24 * step // self.steps
            bar = "#" * done + "." * (24 - done)
            print(f"\repoch {epoch:2}/{self.epochs} [{bar}] {step}/{self.steps}", end="", flush=True)

    def finish(self, epoch, text):
        start = "\r\033[K" if self.live else ""
        print(f"{start}epoch {epoch:2}/{self.epochs}  {text}", flush=True)


def accuracy(model, loader, device):
    """The share of samples that the model gets right."""
    model.eval()
    right, total = torch.zeros((), device=device), 0
    with torch.no_grad():
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            right += (model(images).argmax(1) == labels).sum()
            total += len(labels)
    model.train()
    return right.item() / total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="tpu", choices=["cpu", "tpu"])
    parser.add_argument(
        "--mode", default="fused", choices=["fused", "strict", "debug"], help="how eager ops are run on tpu"
    )
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0, help="stop after this many steps (0: no limit)")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    if args.device == "tpu":
        torch.tpu.set_eager_mode(args.mode)

    train, held_out = datasets()
    # A smaller last batch would be a second set of shapes to compile.
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(held_out, batch_size=len(held_out))

    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()

    progress = Progress(args.epochs, len(train_loader))
    steps, seconds, score = 0, 0.0, 0.0
    for epoch in range(1, args.epochs + 1):
        started = time.perf_counter()
        total = torch.zeros((), device=device)
        for step, (images, labels) in enumerate(train_loader, 1):
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
            progress.update(epoch, step)
            steps += 1
            if steps == args.steps:
                break
        mean_loss = total.item() / step
        elapsed = time.perf_counter() - started
        if epoch > 1 or args.epochs == 1:  # The first epoch is mostly compilation.
            seconds += elapsed
        score = accuracy(model, test_loader, device)
        progress.finish(epoch, f"loss {mean_loss:.4f}  accuracy {100 * score:5.2f} %  {elapsed:5.2f} s")
        if steps == args.steps:
            break

    timed = steps - (len(train_loader) if args.epochs > 1 and epoch > 1 else 0)
    per_step = 1e3 * (seconds or elapsed) / timed
    print(f"\nheld-out accuracy  {100 * score:.2f} % of {len(held_out)} digits after {steps} steps")
    if args.device == "tpu":
        metrics = torch.tpu.metrics()
        hits = metrics["process_cache_hits"] + metrics["disk_cache_hits"]
        cuts = ", ".join(f"{reason} {n}" for reason, n in sorted(metrics["cuts"].items()) if n)
        print(f"device             {torch.tpu.get_device_name()}")
        print(f"mode               {args.mode}")
        runs = f"{metrics['segments_executed']} run, {metrics['segments_interpreted']} run op by op"
        print(f"segments           {metrics['compilations']} compiled, {hits} cache hits, {runs}")
        print(f"cuts               {cuts or 'none'}")
    else:
        print("device             cpu (native kernels)")
    print(f"time per step      {per_step:.2f} ms")


if __name__ == "__main__":
    main()
