"""SIGINT at a random moment of different kinds of work.

Each time KeyboardInterrupt must come, the process must compute on afterwards, and no child may stay behind.

    python tests/attack/interrupts.py --count 14
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

PROGRAM = """
import gc, io, multiprocessing, signal, sys, time
# A shell that runs this in the background ignores the signal, and its children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
import pytpu as torch

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        return torch.ones(8) * i

def compile_programs():
    width = 8
    while True:
        width += 1
        x = torch.randn(8, width, device="tpu", requires_grad=True)
        y = x
        for i in range(30):
            y = torch.tanh(y @ x.t() @ x) + i
        y.sum().backward()
        x.grad.sum().item()

def train_on_tpu():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).to("tpu")
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(64, 64, device="tpu")
    while True:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

def backward_on_cpu():
    x = torch.randn(256, 256, requires_grad=True)
    while True:
        y = x
        for _ in range(20):
            y = torch.tanh(y @ x)
        y.sum().backward()
        x.grad = None

def load_with_workers():
    while True:
        for batch in torch.utils.data.DataLoader(Items(), batch_size=4, num_workers=2):
            batch.sum()

def save_and_load():
    state = {str(i): torch.randn(1000, 100) for i in range(20)}
    while True:
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        torch.load(file)

def decompose():
    a = torch.randn(500, 500)
    while True:
        torch.linalg.svd(a)

print("ready", flush=True)
try:
    globals()[sys.argv[1]]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
for device in ("cpu", "tpu"):
    w = torch.ones(4, 4, device=device, requires_grad=True)
    ((w @ w) * 2).sum().backward()
    assert w.grad.cpu().tolist() == [[16.0] * 4] * 4
loader = torch.utils.data.DataLoader([torch.ones(3)] * 40, batch_size=4, num_workers=2)
assert sum(float(batch.sum()) for batch in loader) == 120
del loader
gc.collect()
deadline = time.time() + 10
while multiprocessing.active_children() and time.time() < deadline:
    time.sleep(0.05)
print("works", len(multiprocessing.active_children()), flush=True)
"""
# Seconds after which a process counts as hanging.
LIMIT = 120
KINDS = ["compile_programs", "train_on_tpu", "backward_on_cpu", "load_with_workers", "save_and_load", "decompose"]


def interrupt(kind, delay, whole_group):
    """Interrupt one process after `delay` seconds of work. Return what went wrong, or None, and the seconds it took to
    react.
    """
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM, kind],
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TORCHTPU_CACHE": "0"},
    )
    killed = threading.Event()

    def kill():
        killed.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    limit = threading.Timer(LIMIT, kill)
    limit.start()
    try:
        process.stdout.readline()
        time.sleep(delay)
        sent = time.time()
        if whole_group:  # As a terminal does: workers get the signal too.
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        first = process.stdout.readline()
        reaction = time.time() - sent
        rest, errors = process.communicate()
        if killed.is_set():
            return f"{kind}: hangs", LIMIT
        wrong = None if (first, rest) == ("interrupted\n", "works 0\n") else f"{kind}: {first}{rest}{errors[-600:]}"
        return wrong, reaction
    finally:
        limit.cancel()
        kill()
        process.communicate()


def attack(count, seed=0):
    """Interrupt `count` processes. Return what went wrong, and the slowest reaction in seconds."""
    rng = random.Random(seed)
    outcomes = [interrupt(KINDS[i % len(KINDS)], rng.uniform(0.05, 2.5), i % 4 == 3) for i in range(count)]
    return [wrong for wrong, _ in outcomes if wrong], max(reaction for _, reaction in outcomes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=len(KINDS) * 4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    wrong, slowest = attack(args.count, args.seed)
    print("\n".join(wrong))
    print(f"{args.count} interrupts, slowest reaction {slowest:.1f} s, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
