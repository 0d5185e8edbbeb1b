"""Rows in which device "tpu" on XLA:CPU, or device "cpu", is held against PyTorch and JAX on the same machine.

    python benches/rows.py                        # all rows, five rounds; programs take turns in fresh processes
    python benches/rows.py softmax vocabulary     # some
    python benches/rows.py --rounds 9 --programs cpu,fused sum

A row prints for each program the least and the median of its rounds in milliseconds, where a round is the median of its
steps, and the processor time of a step on all threads, which other programs on the machine disturb least. The programs
are `cpu`, `fused` and `strict` of this library, and, where an interpreter has them, `torch` and `torch-kept` (with
settings of glibc that keep freed memory) and `jax`. `TORCH_PY` and `JAX_PY` name other interpreters than this one.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

PROGRAMS = ("cpu", "fused", "strict", "torch", "torch-kept", "jax")
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8000000000"}
N = 4096
VOCABULARY, WIDTH, TOKENS = 50257, 256, 256


class Torch:
    """The rows in PyTorch's API."""

    def __init__(self, torch, device):
        self.torch, self.device = torch, device
        torch.manual_seed(0)

    def wait(self):
        if self.device == "tpu":
            self.torch.tpu.synchronize()

    def forward(self, f, *shapes, dtype=None):
        """A step that computes `f` of tensors of these shapes."""
        torch = self.torch
        x = [torch.randn(*shape).to(dtype or torch.float32).to(self.device) for shape in shapes]

        def step():
            with torch.no_grad():
                step.result = f(*x)
            self.wait()

        return step

    def gradient(self, f, *shape):
        """A step that computes `f` and a gradient of its input."""
        torch = self.torch
        x, g = torch.randn(*shape).to(self.device).requires_grad_(), torch.randn(*shape).to(self.device)

        def step():
            x.grad = None
            f(x).backward(g)
            self.wait()

        return step

    def training(self, model, optimizer, x, y):
        """A step of training with cross entropy."""
        cross_entropy = self.torch.nn.functional.cross_entropy
        model = model.to(self.device)
        optimizer = optimizer(model.parameters())
        x, y = x.to(self.device), y.to(self.device)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            loss.item()
            self.wait()

        return step

    def softmax(self):
        return self.forward(lambda x: self.torch.softmax(x, -1), (N, N))

    def log_softmax(self):
        return self.forward(lambda x: self.torch.log_softmax(x, -1), (N, N))

    def softmax_gradient(self):
        return self.gradient(lambda x: self.torch.softmax(x, -1), N, N)

    def layer_norm(self):
        layer_norm = self.torch.nn.functional.layer_norm
        return self.forward(lambda x, w, b: layer_norm(x, (N,), w, b), (N, N), (N,), (N,))

    def sum(self):
        return self.forward(lambda x: x.sum(1), (N, N))

    def sine(self):
        return self.forward(self.torch.sin, (4 << 20,))

    def chain(self):
        torch = self.torch

        def chain(x):
            y = torch.relu(x * 0.5 + 1.0)
            y = torch.sigmoid(torch.tanh(y * y + x) * x)
            y = torch.log(torch.exp(torch.sqrt(torch.abs(y - 0.5) + 0.001)))
            y = torch.sin(-torch.maximum(y / 1.5, x) + x)
            return y * y

        return self.forward(chain, (4 << 20,))

    def product(self, n, dtype):
        return self.forward(lambda a, b: a @ b, (n, n), (n, n), dtype=dtype)

    def product_256(self):
        return self.product(256, self.torch.float32)

    def product_256_bf16(self):
        return self.product(256, self.torch.bfloat16)

    def product_2048_bf16(self):
        return self.product(2048, self.torch.bfloat16)

    def mlp(self):
        torch, nn = self.torch, self.torch.nn
        model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        x, y = torch.randn(128, 784), torch.randint(0, 10, (128,))
        return self.training(model, lambda p: torch.optim.AdamW(p, 1e-3), x, y)

    def vocabulary(self):
        torch, nn = self.torch, self.torch.nn
        model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False))
        x, y = torch.randint(0, VOCABULARY, (TOKENS,)), torch.randint(0, VOCABULARY, (TOKENS,))
        return self.training(model, lambda p: torch.optim.SGD(p, 0.5), x, y)

    def resnet18(self):
        torch = self.torch
        x, y = torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))
        return self.training(resnet18(torch.nn), lambda p: torch.optim.SGD(p, 0.01, momentum=0.9), x, y)


def resnet18(nn):
    """ResNet-18 for ten classes."""

    class Block(nn.Module):
        def __init__(self, c_in, c, stride):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(c_in, c, 3, stride, 1, bias=False),
                nn.BatchNorm2d(c),
                nn.ReLU(),
                nn.Conv2d(c, c, 3, 1, 1, bias=False),
                nn.BatchNorm2d(c),
            )
            same = stride == 1 and c_in == c
            self.skip = (
                nn.Identity() if same else nn.Sequential(nn.Conv2d(c_in, c, 1, stride, bias=False), nn.BatchNorm2d(c))
            )

        def forward(self, x):
            return nn.functional.relu(self.body(x) + self.skip(x))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    sizes = [64, 64, 128, 256, 512]
    for i, (c_in, c) in enumerate(zip(sizes, sizes[1:])):
        layers += [Block(c_in, c, 1 if i == 0 else 2), Block(c, c, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Jax:
    """The rows in JAX, each as one compiled function."""

    def __init__(self):
        import jax

        self.jax, self.np = jax, jax.numpy

    def forward(self, f, *shapes, dtype="float32"):
        keys = self.jax.random.split(self.jax.random.key(0), len(shapes))
        x = [self.jax.random.normal(key, shape).astype(dtype) for key, shape in zip(keys, shapes)]
        f = self.jax.jit(f)
        return lambda: f(*x).block_until_ready()

    def softmax(self):
        return self.forward(lambda x: self.jax.nn.softmax(x, -1), (N, N))

    def log_softmax(self):
        return self.forward(lambda x: self.jax.nn.log_softmax(x, -1), (N, N))

    def softmax_gradient(self):
        def gradient(x, g):
            return self.jax.vjp(lambda x: self.jax.nn.softmax(x, -1), x)[1](g)[0]

        return self.forward(gradient, (N, N), (N, N))

    def layer_norm(self):
        def layer_norm(x, w, b):
            mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
            return (x - mean) * self.jax.lax.rsqrt(var + 1e-5) * w + b

        return self.forward(layer_norm, (N, N), (N,), (N,))

    def sum(self):
        return self.forward(lambda x: x.sum(1), (N, N))

    def sine(self):
        return self.forward(self.np.sin, (4 << 20,))

    def chain(self):
        jax, np = self.jax, self.np

        def chain(x):
            y = jax.nn.relu(x * 0.5 + 1.0)
            y = jax.nn.sigmoid(np.tanh(y * y + x) * x)
            y = np.log(np.exp(np.sqrt(np.abs(y - 0.5) + 0.001)))
            y = np.sin(-np.maximum(y / 1.5, x) + x)
            return y * y

        return self.forward(chain, (4 << 20,))

    def product_256(self):
        return self.forward(self.np.matmul, (256, 256), (256, 256))

    def product_256_bf16(self):
        return self.forward(self.np.matmul, (256, 256), (256, 256), dtype="bfloat16")

    def product_2048_bf16(self):
        return self.forward(self.np.matmul, (2048, 2048), (2048, 2048), dtype="bfloat16")

    def vocabulary(self):
        jax, np = self.jax, self.np
        keys = jax.random.split(jax.random.key(0), 4)
        state = [jax.random.normal(keys[0], (VOCABULARY, WIDTH)), jax.random.normal(keys[1], (VOCABULARY, WIDTH)) / 16]
        x, y = (jax.random.randint(key, (TOKENS,), 0, VOCABULARY) for key in keys[2:])

        def loss(parameters):
            embedding, head = parameters
            scores = jax.nn.log_softmax(embedding[x] @ head.T)
            return -np.take_along_axis(scores, y[:, None], 1).mean()

        def update(parameters):
            value, g = jax.value_and_grad(loss)(parameters)
            return value, [p - 0.5 * g for p, g in zip(parameters, g)]

        update = jax.jit(update, donate_argnums=0)

        def step():
            nonlocal state
            value, state = update(state)
            value.block_until_ready()
            state[0].block_until_ready()

        return step


ROWS = [
    name
    for name in vars(Torch)
    if name not in ("wait", "forward", "gradient", "training", "product") and name[0] != "_"
]


def measure(program, name):
    """Times one row in this process: milliseconds of the median step, and of processor time a step."""
    if program == "jax":
        rows = Jax()
    elif program.startswith("torch"):
        import torch

        rows = Torch(torch, "cpu")
    else:
        import pytpu

        if program != "cpu":
            pytpu.tpu.set_eager_mode(program)
        rows = Torch(pytpu, "cpu" if program == "cpu" else "tpu")
    step = getattr(rows, name)()
    for _ in range(6):
        step()
    used = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    taken, start, before = [], time.perf_counter(), used()
    while len(taken) < 20 or time.perf_counter() - start < 1:
        at = time.perf_counter()
        step()
        taken.append((time.perf_counter() - at) * 1e3)
    return {"wall": statistics.median(taken), "processor": (used() - before) * 1e3 / len(taken)}


def interpreter(program):
    """The interpreter that has a program, if there is one."""
    python = {"t": os.environ.get("TORCH_PY"), "j": os.environ.get("JAX_PY")}.get(program[0]) or sys.executable
    module = {"t": "torch", "j": "jax"}.get(program[0], "pytpu")
    found = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
    return python if found else None


def run(python, program, name):
    """One round in a fresh process."""
    environment = {**os.environ, **(KEPT if program == "torch-kept" else {}), "JAX_PLATFORMS": "cpu"}
    command = [python, __file__, "--measure", program, name]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def main():
    """Runs the rows that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.measure:
        print(json.dumps(measure(*a.measure)))
        return
    for name in a.rows:
        if name not in ROWS:
            parser.error(f"unknown row {name!r}: choose from {', '.join(ROWS)}")
    pythons = {program: interpreter(program) for program in a.programs.split(",")}
    pythons = {program: python for program, python in pythons.items() if python}
    print(f"{'row':18} {'program':11} {'least':>9} {'median':>9} {'processor':>10}  ms")
    for name in a.rows or ROWS:
        rounds = {program: [] for program in pythons if program != "jax" or hasattr(Jax, name)}
        for _ in range(a.rounds):
            for program, results in rounds.items():
                results.append(run(pythons[program], program, name))
        for program, results in rounds.items():
            wall, processor = ([r[key] for r in results] for key in ("wall", "processor"))
            numbers = min(wall), statistics.median(wall), min(processor)
            print(f"{name:18} {program:11} {numbers[0]:9.3f} {numbers[1]:9.3f} {numbers[2]:10.3f}", flush=True)


if __name__ == "__main__":
    main()
