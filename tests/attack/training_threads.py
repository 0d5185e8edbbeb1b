"""16 threads train at once on both devices. Each result must be the one that the same training gives alone, to the bit.

python tests/attack/training_threads.py --seconds 30
"""

import argparse
import os
import sys
import threading
import time

import pytpu as torch

SEEDS = range(4)
DEVICES = ("cpu", "tpu")


def train(seed, device, steps=20):
    """Train a small network. Return its losses and the sum of a weight."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*size):
        return torch.randn(*size, generator=generator)

    weights = [(draw(*size) * 0.2).to(device).requires_grad_() for size in ((16, 32), (32, 32), (32, 4))]
    x = draw(24, 16).to(device)
    y = torch.randint(0, 4, (24,), generator=generator).to(device)
    kinds = [lambda: torch.optim.SGD(weights, lr=0.1, momentum=0.9), lambda: torch.optim.Adam(weights, lr=0.01)]
    optimizer = kinds[seed % 2]()
    losses = []
    for _ in range(steps):
        h = x
        for w in weights[:-1]:
            h = torch.nn.functional.gelu(h @ w)
        loss = torch.nn.functional.cross_entropy(h @ weights[-1], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [float(loss) for loss in losses] + [float(weights[0].sum())]


def attack(seconds, threads=16):
    """Train in threads for some seconds. Return the number of trainings and what went wrong."""
    alone = {(seed, device): train(seed, device) for seed in SEEDS for device in DEVICES}
    end = time.time() + seconds
    done, wrong = [], []

    def work(number):
        turn = number
        while time.time() < end:
            key = (turn % len(SEEDS), DEVICES[turn // len(SEEDS) % 2])
            turn += 1
            try:
                if train(*key) != alone[key]:
                    wrong.append(f"{key}: another result than alone")
            except Exception as error:
                wrong.append(f"{key}: {type(error).__name__}: {error}")
            done.append(key)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(done), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()
    # A program that runs op by op at first may have other last digits than later, when it is compiled.
    os.environ["TORCHTPU_INTERPRET"] = "0"
    done, wrong = attack(args.seconds)
    print("\n".join(wrong[:20]))
    print(f"{done} trainings, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
