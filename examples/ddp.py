"""Trains a small network on 1,797 real handwritten digits, in several processes.

torchrun --nproc-per-node 2 -m pytpu examples/ddp.py
torchrun --nproc-per-node 2 -m pytpu examples/ddp.py --device tpu
"""

import argparse
import os

from sklearn.datasets import load_digits

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn
from pytpu.nn import functional as F
from pytpu.nn.parallel import DistributedDataParallel
from pytpu.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or tpu")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64, help="samples of a step on all ranks")
    args = parser.parse_args()

    # `torchrun` sets the environment that this reads.
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64)
    train = TensorDataset(images[:1437], labels[:1437])
    # Each rank gets its own part of each epoch.
    sampler = DistributedSampler(train, size, rank, seed=0, drop_last=True)
    loader = DataLoader(train, args.batch_size // size, sampler=sampler, drop_last=True)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(args.device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(args.device)), y.to(args.device))
            loss.backward()
            optimizer.step()
        # A mean over ranks, for the eye only: the gradients were averaged in `backward`.
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if rank == 0:
            print(f"epoch {epoch + 1}/{args.epochs}  loss {mean.item():.4f}", flush=True)

    with torch.no_grad():
        guesses = model(images[1437:].to(args.device)).argmax(1).cpu()
    score = (guesses == labels[1437:]).float().mean().item()
    if rank == 0:
        print(f"held-out accuracy  {100 * score:.2f} % of {len(guesses)} digits, {size} ranks, process {os.getpid()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
