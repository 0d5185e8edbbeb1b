"""Random programs of views, writes in place, ops, hooks and backward: the values and gradients are PyTorch's.

Each program is made for PyTorch, from a seed and an index. It is a list of lines of Python, which run here on `cpu` and
on `tpu`. Dtypes, shapes, values, gradients and what hooks saw are compared.

    python tests/attack/programs.py --device tpu                            # the stored programs, `programs.json.gz`
    python tests/attack/programs.py --torch PYTHON --count 1000 --seed 7    # new ones, with PyTorch in that interpreter
    python tests/attack/programs.py --torch PYTHON --repeat SEED INDEX      # one program, in full
    PYTHON tests/attack/programs.py --store FILE --count 300 --seed 1       # record programs; needs PyTorch only

Half of the programs are made of small integers and must agree in every bit. The others are recorded a second time with
inputs that differ in their last digits. How far their results move tells how far results here may be away.
"""

import argparse
import copy
import gzip
import json
import math
import os
import pathlib
import random
import re
import select
import subprocess
import sys
import tempfile
import time
import warnings

STORED = pathlib.Path(__file__).with_name("programs.json.gz")
EPSILON = {
    "float64": 2**-52,
    "complex128": 2**-52,
    "float32": 2**-23,
    "complex64": 2**-23,
    "float16": 2**-10,
    "bfloat16": 2**-7,
}
# A program with larger numbers says more about rounding than about the library. So does one that is not told apart
# from a program whose inputs differ in their last digits.
LARGEST = 1e6
LOOSEST = 0.05
# Only what hangs takes that long: an import may take minutes on a busy machine.
SECONDS = 600
# PyTorch refuses these for a reason that holds here. What it refuses for want of a kernel may work here.
REFUSALS = (
    "a leaf Variable that requires grad is being used in an in-place operation",
    "a view of a leaf Variable that requires grad is being used in an in-place operation",
    "view size is not compatible with input tensor's size and stride",
    "The size of tensor a",
    "is invalid for input of size",
    "shape mismatch: value tensor",
    "out of range",
    "result type",
)
# Lines with these are left out: PyTorch's result depends on an accident, or is known to be wrong.
LEFT_OUT = {
    r"div_\(0\)|/ 0\b|pow_?\(0\)": "gradients of infinities and of 0 / 0 depend on the order of a formula",
    r"torch.dist\(": "PyTorch's gradient of a distance of zero is NaN",
    r"hardsigmoid|celu": "PyTorch's gradient of `float64` has constants of `float32`",
    r"_foreach_\w+\(\[(\w+), \1\]": "PyTorch's gradient of one tensor in a list twice is wrong",
    r"'prod'\)": "PyTorch's gradient of complex products is not conjugated",
    r"^v\d+ = \w+\.data$": "PyTorch does not see writes through `data`, and computes gradients from them",
}
# Stored programs that still differ. An entry goes when the library is mended.
KNOWN = {
    24: "`x.copy_(x)` of an expanded tensor is refused",
    90: "`einsum` of `bool` tensors gives `int64`",
    212: "a write in place into an expanded tensor without elements is refused",
}
MODIFIED = "has been modified by an inplace operation"


def environment(torch, device, spread=0.0, spread_seed=0):
    """Return the names that the lines of a program use."""
    rng = random.Random(spread_seed)
    seen = {}

    def make(values, dtype, shape):
        kind = getattr(torch, dtype)
        if spread:
            values = [v * (1 + spread * rng.choice([-1, 1]) * rng.uniform(0.5, 1)) for v in values]
        if kind.is_complex:
            x = torch.view_as_complex(torch.tensor(values, dtype=torch.float64).view([*shape, 2])).to(kind)
        else:
            x = torch.tensor(values, dtype=torch.float64).to(kind).view(shape)
        return x.to(device).clone()

    def note(name, g):
        """Keep what a hook has seen."""
        seen.setdefault(name, []).append(None if g is None else g.detach().clone())

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    class Doubling(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    class Passing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g * 3

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return None if g is None else g.mul(2)

    functions = {c.__name__: c for c in (Square, Doubling, Passing, Nothing, Two)}
    names = {"torch": torch, "F": torch.nn.functional, "D": device, "copy": copy, "make": make, "note": note}
    return {**names, **functions, "checkpoint": torch.utils.checkpoint.checkpoint}, seen


def finish(torch, tensors, kind):
    """Run backward from all tensors, in one of two ways. Return the gradients by name."""
    loss = None
    for count, x in enumerate(tensors.values(), 1):
        if not x.requires_grad:
            continue
        y = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
        y = y.double()
        weight = (torch.arange(y.numel(), device=y.device) % 7 - 2).double().view(y.shape) * count
        part = (torch.where(torch.isfinite(y), y, torch.zeros_like(y)) * weight).sum()
        loss = part if loss is None else loss + part
    if loss is None:
        return {}
    leaves = {name: x for name, x in tensors.items() if x.is_leaf and x.requires_grad}
    if kind == "once":
        loss.backward()
        return {name: x.grad for name, x in tensors.items() if x.is_leaf or x.retains_grad}
    first = torch.autograd.grad(loss, list(leaves.values()), create_graph=True, allow_unused=True)
    found = {f"first {name}": g for name, g in zip(leaves, first, strict=True)}
    total = None
    for g in first:
        if g is not None and g.requires_grad:
            y = (torch.view_as_real(g.resolve_conj()) if g.is_complex() else g).double()
            y = torch.where(torch.isfinite(y), y, torch.zeros_like(y))
            total = (y * y).sum() if total is None else total + (y * y).sum()
    if total is not None and total.requires_grad:
        total.backward()
        found |= {name: x.grad for name, x in leaves.items()}
    return found


def describe(x):
    """Return dtype, shape, whether it needs a gradient, and numbers; complex numbers as pairs."""
    if x is None:
        return None
    y = x.detach()
    head = [str(y.dtype).removeprefix("torch."), list(y.shape), x.requires_grad]
    if y.device.type != "cpu":
        y = y.cpu()
    if y.is_complex():
        y = y.resolve_conj()
        pairs = y.reshape(-1).tolist()
        numbers = [part for z in pairs for part in (z.real, z.imag)]
    else:
        numbers = y.resolve_neg().reshape(-1).tolist()
    return [*head, [v if isinstance(v, (int, bool)) or math.isfinite(v) else str(v) for v in numbers]]


def execute(torch, program, device, spread=0.0, keep_values=False):
    """Run a program. Return what it refused, its tensors, gradients and hooks, and how backward failed."""
    names, seen = environment(torch, device, spread)
    tensors, refused = {}, {}
    hooks = torch.autograd.graph.saved_tensors_hooks
    for index, line in enumerate(program["lines"]):
        try:
            # With a copy of each saved value, PyTorch knows the gradient of programs that it would refuse.
            if keep_values:
                with hooks(lambda t: t.clone(), lambda t: t):
                    exec(line, names)
            else:
                exec(line, names)
        except Exception as error:
            refused[str(index)] = f"{type(error).__name__}: {str(error)[:200]}"
    for name, value in names.items():
        if isinstance(value, torch.Tensor) and name[0] in "xv" and name[1:2].isdigit():
            tensors[name] = value
    answer = {"refused": refused, "failed": None, "gradients": {}, "seen": {}}
    # Values are read before backward, which must not change them.
    answer["values"] = {name: describe(x) for name, x in tensors.items()}
    try:
        answer["gradients"] = {name: describe(g) for name, g in finish(torch, tensors, program["kind"]).items()}
    except Exception as error:
        answer["failed"] = f"{type(error).__name__}: {str(error)[:200]}"
    answer["seen"] = {name: [describe(g) for g in gs] for name, gs in seen.items()}
    return answer


def numbers_of(answer):
    """Yield each described tensor of an answer with its place."""
    for part in ("values", "gradients"):
        for name, entry in answer[part].items():
            yield f"{part[:-1]} of {name}", entry
    for name, entries in answer["seen"].items():
        for index, entry in enumerate(entries):
            yield f"hook {name}, call {index}", entry


def scale_of(entry):
    return max((abs(v) for v in entry[3] if not isinstance(v, (str, bool))), default=0.0)


def distance(place, first, second):
    """Return the largest difference of two entries over the largest number; infinite where no number is near."""
    if first is None or second is None:
        return 0.0 if first is second else math.inf
    if first[:2] != second[:2]:
        return math.inf
    # Second gradients, and gradients that are zero but for rounding, may be what is left of larger numbers.
    least = 1.0 if place.startswith("gradient of x") else 0.1
    scale, most = max(scale_of(first), scale_of(second), least), 0.0
    numbers, others = first[3], second[3]
    if first[0].startswith("complex"):
        # A complex number with one part NaN is NaN: which other part is left depends on the formula.
        numbers, others = (without_half_nan(v) for v in (numbers, others))
    for v, w in zip(numbers, others, strict=True):
        if isinstance(v, str) or isinstance(w, str):
            if str(v) != str(w):
                return math.inf
        else:
            most = max(most, abs(v - w) / scale)
    return most


def without_half_nan(parts):
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    return [part for pair in pairs for part in (("nan", "nan") if "nan" in pair else pair)]


# PyTorch's side.


def record(torch, program):
    """Return PyTorch's answer to a program, with tolerances; or None if it shows nothing."""
    answer = execute(torch, program, "cpu")
    if answer["failed"] and MODIFIED in answer["failed"]:
        kept = execute(torch, program, "cpu", keep_values=True)
        if kept["failed"] or kept["refused"] != answer["refused"]:
            return None
        answer = {**kept, "may_fail": answer["failed"]}
    if answer["failed"] or any(not any(r in text for r in REFUSALS) for text in answer["refused"].values()):
        return None
    entries = [entry for _, entry in numbers_of(answer) if entry]
    if any(isinstance(v, float) and 0 < abs(v) < 1e-30 for entry in entries for v in entry[3]):
        return None
    largest = max(map(scale_of, entries), default=0)
    if largest > (LARGEST if not {entry[0] for entry in entries} & {"float16"} else 300):
        return None
    answer["tolerance"] = {}
    if program["exact"]:
        # Sums of integers have one result only while no partial sum is rounded.
        low = {entry[0] for entry in entries} & {"float16", "bfloat16"}
        return None if low and largest > 100 else answer
    dtypes = {entry[0] for entry in entries} & EPSILON.keys()
    epsilon = max((EPSILON[dtype] for dtype in dtypes), default=2**-52)
    moved = execute(torch, program, "cpu", 4 * epsilon, keep_values="may_fail" in answer)
    if moved["failed"] or moved["refused"].keys() != answer["refused"].keys():
        return None
    places = dict(numbers_of(moved))
    for place, entry in numbers_of(answer):
        if place not in places:
            return None
        # Some special functions of PyTorch have nine digits, and a library may add in another order.
        allowed = 20 * distance(place, entry, places[place]) + max(100 * epsilon, 1e-9)
        if not allowed < LOOSEST + 100 * epsilon:
            return None
        answer["tolerance"][place] = float(f"{allowed:.2g}")
    return answer


def generate(torch, steps, seed, index):
    """Return a program and PyTorch's answer, or None where the draw is of no use."""
    rng = random.Random(f"{seed} {index}")
    is_exact = rng.random() < 0.5
    names, _ = environment(torch, "cpu")
    lines = []
    for line in steps.inputs(rng, is_exact):
        exec(line, names)
        lines.append(line)
    length, tries, new = rng.randint(3, 10), 0, 0
    while length and tries < 40:
        tries += 1
        live = {n: v for n, v in names.items() if isinstance(v, torch.Tensor) and n[0] in "xv" and n[1:2].isdigit()}
        try:
            line = steps.step(rng, live, is_exact, f"v{new}")
        except (RuntimeError, IndexError, ValueError):
            continue
        if line is None or any(re.search(pattern, line) for pattern in LEFT_OUT):
            continue
        try:
            exec(line, names)
        except Exception as error:
            is_useful = any(text in str(error) for text in REFUSALS) and rng.random() < 0.3
            # A failed line that writes may have written a part.
            if not is_useful or "foreach" in line or "out=" in line or ";" in line:
                if "_(" in line or "foreach" in line or "out=" in line or ";" in line:
                    break
                continue
        lines.append(line)
        new += 1
        length -= 1
    # A second pass meets a hook again wherever a formula uses the result, so its result depends on the formula.
    may_be_twice = not any("g * 2" in line for line in lines)
    program = {"lines": lines, "kind": rng.choice(["once", "once", "twice"] if may_be_twice else ["once"])}
    program["exact"] = is_exact
    answer = record(torch, program)
    return answer and [program, answer]


def prepare_torch():
    import torch
    import torch.utils.checkpoint

    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import program_steps

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    return torch, program_steps


def serve():
    """Answer requests on standard input: a seed and an index, or a program."""
    torch, steps = prepare_torch()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            found = generate(torch, steps, *request) if isinstance(request, list) else record(torch, request)
        except Exception as error:
            found = {"broken": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(found), flush=True)


def shorten(entry):
    if entry is None:
        return None
    return [*entry[:3], [float(f"{v:.12g}") if isinstance(v, float) else v for v in entry[3]]]


def store(path, count, seed):
    """Record programs of small tensors into a file."""
    torch, steps = prepare_torch()
    kept, index = [], 0
    while len(kept) < count:
        found = generate(torch, steps, seed, index)
        index += 1
        if not found or len(json.dumps(found)) > 4000:
            continue
        program, answer = found
        for part in ("values", "gradients"):
            answer[part] = {name: shorten(entry) for name, entry in answer[part].items()}
        answer["seen"] = {name: [shorten(entry) for entry in entries] for name, entries in answer["seen"].items()}
        kept.append([program, answer])
    text = "".join(json.dumps(item, separators=(",", ":")) + "\n" for item in kept)
    pathlib.Path(path).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{count} of {index} programs, {pathlib.Path(path).stat().st_size} bytes")


# This library's side.


def difference(program, answer, device):
    """Run a program here. Return what differs from PyTorch's answer, or None."""
    import pytpu as torch

    got = execute(torch, program, device)
    for index, line in enumerate(program["lines"]):
        wanted, here = answer["refused"].get(str(index)), got["refused"].get(str(index))
        if (wanted is None) != (here is None):
            return f"line {index}: {line}\n    PyTorch: {wanted or 'no error'}\n    here: {here or 'no error'}"
    places = dict(numbers_of(got))
    wanted_places = dict(numbers_of(answer))
    if got["failed"]:
        if "may_fail" in answer and MODIFIED in got["failed"]:
            wanted_places = {place: entry for place, entry in wanted_places.items() if place.startswith("value")}
        else:
            return f"backward\n    PyTorch: no error\n    here: {got['failed']}"
    for place, wanted in wanted_places.items():
        here = places.get(place)
        if program["kind"] == "twice" and not place.startswith("gradient of first"):
            # Whether a second gradient is zero or absent says how the formula of the first is written.
            if is_zero(wanted) and is_zero(here):
                continue
        if (wanted is None) != (here is None):
            return f"{place}\n    PyTorch: {wanted}\n    here: {here}"
        if wanted is None:
            continue
        allowed = answer["tolerance"].get(place, 0.0)
        # Gradients of integers pass through quotients and roots.
        if not allowed and not place.startswith("value") and wanted[0] in EPSILON:
            allowed = 64 * EPSILON[wanted[0]]
        # Whether a gradient needs a gradient says how a formula is written.
        heads = 3 if place.startswith("value") else 2
        if wanted[:heads] != here[:heads] or distance(place, wanted, here) > allowed:
            return f"{place}, allowed {allowed}\n    PyTorch: {wanted}\n    here: {here}"
    extra = sorted(place for place in places.keys() - wanted_places.keys() if not is_zero(places[place]))
    if extra and not got["failed"]:
        return f"{extra}: not there in PyTorch"
    return None


def is_zero(entry):
    """Whether a gradient is absent, or zero but for rounding."""
    if entry is None:
        return True
    return not any(isinstance(v, str) for v in entry[3]) and scale_of(entry) <= 1000 * EPSILON.get(entry[0], 0.0)


def work(device):
    """Answer requests on standard input: a program and PyTorch's answer to it."""
    warnings.simplefilter("ignore")
    import pytpu as torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        try:
            found = difference(*json.loads(line), device)
        except Exception as error:
            found = f"internal: {type(error).__name__}: {str(error)[:300]}"
        print(json.dumps(found), flush=True)


class Server:
    """A process that answers a line with a line, and is started again when it has ended."""

    def __init__(self, command, environment=None, most=math.inf):
        self.command = command
        self.most = most
        self.environment = environment or {}
        self.process = None
        self.answers = 0

    def ask(self, request, seconds=SECONDS):
        """Return the answer, or a string about how the process ended."""
        if self.process is None or self.process.poll() is not None or self.answers >= self.most:
            self.close()
            self.errors = tempfile.TemporaryFile()
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                env={**os.environ, **self.environment},
            )
            self.answers = 0
        self.answers += 1
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], seconds)
            if not ready:
                self.close()
                return "hangs"
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            code = self.process.wait()
            self.errors.seek(0)
            return f"ends the process with {code}: {self.errors.read().decode(errors='replace')[-300:]}"
        return json.loads(line)

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None


def shrink(program, message, reference, worker):
    """Leave out lines while the program still differs in the same way."""
    kind = message[:9] if message.startswith("line") else message.split(" ")[0]
    end = time.time() + 30
    changed = True
    while changed and time.time() < end:
        changed = False
        for index in range(len(program["lines"]) - 1, -1, -1):
            lines = program["lines"][:index] + program["lines"][index + 1 :]
            shorter = {**program, "lines": lines}
            answer = reference.ask(shorter)
            if not isinstance(answer, dict) or "values" not in answer:
                continue
            found = worker.ask([shorter, answer])
            if found and found.split(" ")[0] == kind.split(" ")[0]:
                program, message, changed = shorter, found, True
    return program, message


def attack_live(python, count, seed, device, start=0, seconds=math.inf, worker_environment=None, report=print):
    """Compare new programs with PyTorch. Return how many were compared, and the differences."""
    reference = Server([python, __file__, "--serve"])
    worker = Server([sys.executable, __file__, "--work", device], worker_environment, most=400)
    compared, findings, end = 0, [], time.time() + seconds
    index = start
    try:
        while compared < count and time.time() < end:
            found = reference.ask([seed, index])
            index += 1
            if isinstance(found, str) or isinstance(found, dict):
                report(f"# the recorder at {seed} {index - 1}: {found}")
                continue
            if found is None:
                continue
            compared += 1
            message = worker.ask(found)
            if message:
                program, message = shrink(found[0], message, reference, worker)
                findings.append({"seed": seed, "index": index - 1, "device": device, "message": message, **program})
                report(show(findings[-1]))
    finally:
        reference.close()
        worker.close()
    return compared, findings


def attack_stored(device, part=slice(None), seconds=math.inf, worker_environment=None):
    """Compare the stored programs but for known differences. Return how many were compared, and what differs."""
    items = [json.loads(line) for line in gzip.decompress(STORED.read_bytes()).splitlines()]
    worker = Server([sys.executable, __file__, "--work", device], worker_environment, most=400)
    compared, findings, end = 0, [], time.time() + seconds
    try:
        for index, (program, answer) in list(enumerate(items))[part]:
            if index in KNOWN:
                continue
            if time.time() > end:
                break
            compared += 1
            message = worker.ask([program, answer])
            if message:
                findings.append({"stored": index, "device": device, "message": message, **program})
    finally:
        worker.close()
    return compared, findings


def show(finding):
    where = " ".join(str(finding[k]) for k in ("stored", "seed", "index", "device") if k in finding)
    lines = "\n".join("    " + line for line in finding["lines"])
    return f"== {where}, backward {finding['kind']}\n{lines}\n-> {finding['message'][:1500]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "tpu"])
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter with PyTorch, for new programs")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="the index of the first new program")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--compiled", action="store_true", help="on `tpu`, compile each program at its first run")
    parser.add_argument("--repeat", nargs=2, type=int, metavar=("SEED", "INDEX"))
    parser.add_argument("--store", metavar="FILE")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--work", metavar="DEVICE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve()
    if args.work:
        return work(args.work)
    if args.store:
        return store(args.store, args.count, args.seed)
    if args.repeat:
        found = Server([args.torch, __file__, "--serve"]).ask(args.repeat)
        if not found:
            print("not used")
            return 0
        print("\n".join(found[0]["lines"]), "\nbackward", found[0]["kind"])
        how = {"TORCHTPU_INTERPRET": "0"} if args.compiled else {}
        print("->", Server([sys.executable, __file__, "--work", args.device], how).ask(found))
        return 0
    how = {"TORCHTPU_INTERPRET": "0"} if args.compiled else {}
    if args.torch:
        compared, findings = attack_live(args.torch, args.count, args.seed, args.device, args.start, args.seconds, how)
    else:
        compared, findings = attack_stored(args.device, seconds=args.seconds, worker_environment=how)
        for finding in findings:
            print(show(finding))
    print(f"{compared} programs on {args.device}, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
