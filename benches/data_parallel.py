"""Times a training step in one process and in two, by `DistributedDataParallel` on device cpu.

python benches/data_parallel.py                               # this library
python benches/data_parallel.py --torch venv/bin/python       # in turn with PyTorch in another environment
python benches/data_parallel.py --slow-link 5                 # each bucket takes 5 ms more on its way

Each rank has one thread. The numbers are minima in milliseconds, and the last column is what two ranks add. With a slow
link, that is to be compared with what the link takes: the rest is hidden behind backward.
"""

import argparse
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

LIMIT = 600


def models(torch):
    """Return the models by name, each with its batch on one rank."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            y = self.norm1(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.mlp(self.norm2(x))

    mlp = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    gpt = nn.Sequential(nn.Embedding(65, 256), *(Block(256) for _ in range(4)), nn.Linear(256, 65))
    return {
        "MLP": (mlp, torch.randn(32, 784), torch.randint(0, 10, (32,))),
        "GPT": (gpt, torch.randint(0, 65, (2, 64)), torch.randint(0, 65, (128,))),
    }


class SlowLink:
    """Averages the buckets of a communication hook. They go one after the other, and each takes some seconds more."""

    def __init__(self, torch, seconds):
        self.torch, self.seconds, self.sent = torch, seconds, 0
        self.waiting = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def send(self, state, bucket):
        future = self.torch.futures.Future()
        self.waiting.put((bucket.buffer(), future))
        self.sent += 1
        return future

    def _run(self):
        while True:
            buffer, future = self.waiting.get()
            self.torch.distributed.all_reduce(buffer)
            buffer.div_(self.torch.distributed.get_world_size())
            time.sleep(self.seconds)
            future.set_result(buffer)


def work(library, rank, size, path, steps, delay):
    """Run one rank, and print the least time of a step of each model, and how long a slow link takes."""
    if library == "torch":
        import torch
    else:
        import pytpu as torch
    torch.set_num_threads(1)
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.FileStore(path, size), rank=rank, world_size=size)
    for name, (model, x, y) in models(torch).items():
        link = None
        if size > 1:
            model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2 if delay else None)
        if size > 1 and delay:
            link = SlowLink(torch, delay / 1e3)
            model.register_comm_hook(None, link.send)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        least = float("inf")
        for _ in range(steps):
            start = time.perf_counter()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x).flatten(0, -2), y).backward()
            optimizer.step()
            least = min(least, time.perf_counter() - start)
        if rank == 0:
            print(f"{name} {1e3 * least} {link.sent / steps * delay if link else 0}", flush=True)
    dist.destroy_process_group()


def times(python, library, size, steps, delay):
    """Return the time of a step, and that of a slow link, by model."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        ranks = [
            subprocess.Popen(
                [python, __file__, "--rank", str(rank), str(size), path, library, str(steps), str(delay)],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for rank in range(size)
        ]
        try:
            texts = [rank.communicate(timeout=LIMIT)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    return {name: (float(step), float(link)) for name, step, link in map(str.split, texts[0].splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", help="an interpreter that has PyTorch")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow-link", type=float, default=0, metavar="MS", help="what each bucket takes more")
    parser.add_argument("--rank", nargs=6, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        rank, size, path, library, steps, delay = args.rank
        work(library, int(rank), int(size), path, int(steps), float(delay))
        return
    libraries = [("pytpu", sys.executable)] + ([("torch", args.torch)] if args.torch else [])
    least, links = {}, {}
    for _ in range(args.rounds):
        for library, python in libraries:
            for size in (1, 2):
                for name, (step, link) in times(python, library, size, args.steps, args.slow_link).items():
                    key = library, name, size
                    least[key] = min(step, least.get(key, float("inf")))
                    links[key] = link
    print(f"{'library':8} {'model':6} {'1 rank':>8} {'2 ranks':>8} {'link':>8} {'added':>8}")
    for library, _ in libraries:
        for name in ("MLP", "GPT"):
            one, two = least[library, name, 1], least[library, name, 2]
            link = links[library, name, 2]
            print(f"{library:8} {name:6} {one:8.2f} {two:8.2f} {link:8.2f} {two - one:8.2f}")


if __name__ == "__main__":
    main()
