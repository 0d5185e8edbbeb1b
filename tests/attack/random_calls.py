"""Random calls of every public function, in processes with limits.

No call may crash the process, hang, or raise an internal error: bad arguments get an ordinary exception. Every call is
determined by the seed, its index and the device, so a finding repeats:

    python tests/attack/random_calls.py --seconds 60 --devices cpu,tpu
    python tests/attack/random_calls.py --repeat SEED INDEX DEVICE

Device `mixed` spreads the tensors of a call over `cpu`, `tpu` and `meta`. Such a call raises an error about devices, or
has the result of the call on one device.
"""

import argparse
import inspect
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import types
import warnings

import numpy as np

import pytpu as torch

# Names that end or reconfigure the process, wait for input, or write files.
LEFT_OUT = set(
    """save load compile from_file hub Tensor exit quit fork wait reload seed manual_seed share_memory_ typename
    set_rng_state inference_mode no_grad enable_grad autocast_increment_nesting autocast_decrement_nesting
    clear_autocast_cache install import_ir_module sys os""".split()
)
SPECIAL_METHODS_LEFT_OUT = set(
    """__class__ __init_subclass__ __subclasshook__ __getattribute__ __setattr__ __delattr__ __del__ __new__ __dir__
    __sizeof__""".split()
)
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
DTYPES = (
    FLOATS[:1] * 4
    + FLOATS
    + [torch.int64] * 3
    + [
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.complex128,
        # Those that are only stored.
        torch.uint16,
        torch.uint64,
        torch.float8_e4m3fn,
        torch.float8_e8m0fnu,
    ]
)
HUGE = [2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63), -(2**31), 10**9, 2**63, 2**64, 10**30]
NUMBERS = [0.0, 1.0, -1.0, 0.5, 2.5, 1e308, 1e-320, float("nan"), float("inf"), -float("inf"), 1 + 1j, True, 2**63 - 1]
TEXTS = [
    "",
    "mean",
    "sum",
    "none",
    "floor",
    "trunc",
    "constant",
    "reflect",
    "replicate",
    "circular",
    "nearest",
    "bilinear",
    "bicubic",
    "fro",
    "nuc",
    "reduced",
    "complete",
    "U",
    "L",
    "left",
    "right",
    "amax",
    "prod",
    "linear",
    "tanh",
    "ij",
    "ij,jk->ik",
    "...i,...i->...",
    "ii->i",
    "ortho",
    "cpu",
    "cpu:7",
    "tpu:7",
    "meta",
    "\x00",
    "é",
    "\ud800",
    "x" * 1000,
]
INTERNAL = re.compile(
    r"PanicException|internal error, please|unreachable|index out of bounds|Option::unwrap|Result::unwrap|attempt to |"
    r"range end index|range start index|slice index|capacity overflow|assertion|a bug of that op|please report|"
    r"copy_from_slice|failed to legalize|StableHLO|stablehlo|INTERNAL:|UNIMPLEMENTED:|INVALID_ARGUMENT:|LLVM"
)
INTERNAL_TYPES = ("PanicException", "SystemError", "UnboundLocalError", "NameError", "ImportError")
# What calls with operands on several devices may say, where the call on one device works.
DEVICE_ERRORS = re.compile(r"device|\bmeta\b|no data|\bcpu\b|\btpu\b|not implemented|NotImplementedError", re.I)
# Results of these are not determined by their operands.
UNDETERMINED = re.compile(
    r"empty|resize|rand|normal|bernoulli|dropout|multinomial|poisson|exponential_|cauchy_|geometric_"
)
# Devices with numbers. `cpu:3` is `cpu`, as in PyTorch, `meta:1` is there, and the others are not.
DEVICE_NUMBERS = ["cpu:3", "meta:1", "tpu:9", "tpu:0"]
# How often arguments are drawn for a call on mixed devices.
TRIES = 8
HANG_SECONDS = 60
MEMORY_BYTES = 6 << 30


class Odd:
    """An object whose ``__index__`` gives a number or raises."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if self.value is None:
            raise ValueError("no index today")
        return self.value


def callables():
    """Every public callable of the places where users look, by place and name."""
    places = {
        "torch": torch,
        "Tensor": torch.Tensor,
        "functional": torch.nn.functional,
        "linalg": torch.linalg,
        "fft": torch.fft,
        "special": torch.special,
        "ops": torch._C._ops,
    }
    found = []
    for place, module in places.items():
        for name in sorted(dir(module)):
            is_special = place == "Tensor" and name.startswith("__") and name not in SPECIAL_METHODS_LEFT_OUT
            is_private = name.startswith("_") and not name.startswith("_foreach") and not is_special
            if name in LEFT_OUT or is_private or name.startswith("set_") and place == "torch":
                continue
            function = getattr(module, name, None)
            if callable(function) and not isinstance(function, types.ModuleType) and not inspect.isclass(function):
                found.append((place, name, function))
    return found


class Arguments:
    """Random arguments for one call."""

    def __init__(self, rng, device):
        self.rng = rng
        self.device = device
        # Calls with tame numbers come further into the ops than calls with huge ones.
        self.is_tame = rng.random() < 0.45
        self.last = None

    def integer(self):
        p = self.rng.random()
        if self.is_tame or p < 0.6:
            return self.rng.choice([0, 1, 1, 2, 2, 3, -1, -2, 4])
        return self.rng.randint(-10, 12) if p < 0.85 else self.rng.choice(HUGE)

    def shape(self):
        rank = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 7, 10])
        sizes = self.rng.choice([[1, 2, 3], [2, 3], [3], [4], [0, 1, 2], [5, 7], [1]]) if rank < 6 else [1, 2]
        return [self.rng.choice(sizes) for _ in range(rank)]

    def tensor(self, shape=None, dtype=None):
        rng = self.rng
        shape = self.shape() if shape is None else shape
        dtype = rng.choice(DTYPES) if dtype is None else dtype
        generator = np.random.default_rng(rng.getrandbits(32))
        if dtype.is_floating_point or dtype.is_complex:
            values = generator.standard_normal(shape)
            if rng.random() < 0.15:
                values = np.where(
                    generator.random(shape) < 0.3, rng.choice([np.nan, np.inf, -np.inf, 0.0, 1e300, 1e-310]), values
                )
        elif dtype is torch.bool or rng.random() < 0.85:
            values = generator.integers(0, 4, shape)
        else:
            values = generator.choice([torch.iinfo(dtype).min, torch.iinfo(dtype).max], shape)
        x = torch.tensor(values).to(dtype)
        if x.dim() > 1 and rng.random() < 0.2:
            x = x.transpose(0, -1)
        elif x.dim() and rng.random() < 0.1:
            x = x[::2]
        elif rng.random() < 0.05:
            x = x.expand([2, *x.shape])
        if x.is_complex() and rng.random() < 0.2:
            x = x.conj()
        if rng.random() < 0.93:
            x = x.to(self.device)
        if (dtype.is_floating_point or dtype.is_complex) and rng.random() < 0.25:
            x.requires_grad_()
        return x

    def anything(self, depth=0):
        rng = self.rng
        p = rng.random()
        if p < 0.3:
            return self.tensor()
        if p < 0.45:
            return self.integer()
        if p < 0.6:
            return rng.choice(NUMBERS + [None, Ellipsis, NotImplemented, False])
        if p < 0.7:
            return rng.choice(TEXTS)
        if p < 0.77:
            return rng.choice(DTYPES)
        if p < 0.83:
            odd = [
                object(),
                {},
                b"abc",
                10**400,
                range(3),
                lambda *a: None,
                slice(None),
                np.zeros((2, 2)),
                np.array(["a"]),
                Odd(2),
            ]
            return rng.choice(
                odd + [Odd(None), Odd(2**70), torch.Size([1, 2]), iter([]), torch.device("meta"), torch.channels_last]
            )
        if depth < 3:
            return rng.choice([list, tuple])(self.anything(depth + 1) for _ in range(rng.choice([0, 1, 2, 3, 9])))
        return [self.integer() for _ in range(rng.choice([1, 2, 9]))]

    def of_type(self, text):
        """A value for a parameter of this schema type; sometimes one of another type."""
        rng = self.rng
        if not self.is_tame and rng.random() < 0.06:
            return self.anything()
        if text.endswith("?") and rng.random() < 0.4:
            return None
        text = re.sub(r"\([a-z!]*\)", "", text.rstrip("?"))
        if text == "Tensor":
            if self.last is not None and rng.random() < 0.35:
                return self.last
            like = self.last is not None and rng.random() < 0.4
            self.last = (
                self.tensor(list(self.last.shape), self.last.dtype if rng.random() < 0.6 else None)
                if like
                else self.tensor()
            )
            return self.last
        if text.startswith("Tensor"):
            return [self.of_type("Tensor") for _ in range(rng.choice([0, 1, 2, 2, 3]))]
        if re.match(r"(Sym)?[iI]nt\[", text):
            size = re.search(r"\[(\d*)\]", text).group(1)
            return [
                self.integer()
                for _ in range(int(size) if size and rng.random() < 0.85 else rng.choice([0, 1, 2, 3, 9]))
            ]
        simple = {
            "int": self.integer,
            "SymInt": self.integer,
            "bool": lambda: rng.random() < 0.5,
            "str": lambda: rng.choice(TEXTS),
            "float": lambda: rng.choice(NUMBERS[:10]),
            "Scalar": lambda: rng.choice(NUMBERS + HUGE[:6]),
            "ScalarType": lambda: rng.choice(DTYPES),
            "Device": lambda: rng.choice(["cpu", self.device, torch.device("meta"), *DEVICE_NUMBERS]),
            "float[]": lambda: [rng.choice(NUMBERS[:10]) for _ in range(rng.choice([1, 2, 3]))],
            "Scalar[]": lambda: [rng.choice(NUMBERS) for _ in range(2)],
        }
        return simple[text]() if text in simple else None


def parameters(schema):
    """The type, the name, whether there is a default and whether it is by keyword, of each parameter of a schema."""
    text = re.match(r"[\w.]+\((.*)\)\s*->", schema).group(1)
    found, by_keyword = [], False
    for part in re.split(r",\s*(?![^\[(]*[\])])", text):
        if part.strip() == "*":
            by_keyword = True
        elif part.strip():
            declaration, _, default = part.strip().partition("=")
            kind, _, name = declaration.rpartition(" ")
            found.append((kind, name, bool(default), by_keyword))
    return found


def make_call(functions, seed, index, device, attempt=0):
    """The place, name and function, the arguments, and whether to run backward."""
    rng = random.Random(f"{seed} {index} {device}")
    place, name, function = rng.choice(functions)
    if device == "mixed":
        # Take the functions in turn. The seed has the function's name, so a new function changes no others' arguments.
        place, name, function = functions[index % len(functions)]
        rng = random.Random(f"{seed} {index // len(functions)} {place} {name} {attempt}")
    arguments = Arguments(rng, "cpu" if device == "mixed" else device)
    arguments.is_tame |= attempt > 0
    schemas = next(filter(None, map(schemas_of, (name, name.rstrip("_"), f"{place}_{name}"))), [])
    args, keywords = [], {}
    if schemas and rng.random() < 0.8:
        for kind, parameter, has_default, by_keyword in parameters(rng.choice(schemas)):
            if has_default and rng.random() < 0.45:
                by_keyword = True
                if rng.random() < 0.6:
                    continue
            if by_keyword or keywords:
                keywords[parameter] = arguments.of_type(kind)
            else:
                args.append(arguments.of_type(kind))
        if rng.random() < 0.04:
            keywords["out"] = arguments.tensor()
    else:
        args = [arguments.anything() for _ in range(rng.choice([0, 1, 2, 2, 3, 4]))]
        if place == "Tensor" or rng.random() < 0.6:
            args[:1] = [arguments.tensor()]
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            keywords[rng.choice(["dim", "out", "dtype", "keepdim", "reduction", "mode", "size", "p", "weight"])] = (
                arguments.anything()
            )
    return place, name, function, args, keywords, rng.random() < 0.3


def schemas_of(name):
    try:
        return torch._C._schemas(name)
    except Exception:  # The binding has no op of this name.
        return []


def use(result, run_backward, depth=0):
    """Read, print and differentiate what a call returned: deferred errors appear here."""
    if isinstance(result, torch.Tensor):
        if result.device.type == "meta" or result.numel() > 200_000:
            return
        result.cpu().tolist()
        if result.numel() < 50:
            repr(result)
        if run_backward and result.requires_grad and result.numel():
            (result.abs() if result.is_complex() else result).sum().backward(retain_graph=True)
    elif isinstance(result, (list, tuple)) and depth < 3:
        for item in list(result)[:6]:
            use(item, run_backward, depth + 1)


def describe(value):
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)} strides {list(value.stride())} on {value.device}"
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value[:8]]
    text = "a huge integer" if isinstance(value, int) and abs(value) > 10**40 else repr(value)
    return text.encode("ascii", "backslashreplace").decode()[:80]


def run_call(functions, seed, index, device):
    """Make and run one call. Return what is wrong with its exception, or None."""
    place, name, function, args, keywords, run_backward = make_call(functions, seed, index, device)
    try:
        result = function(*args, **keywords)
        use(result, run_backward)
        if name.endswith("_"):
            use(args, False)
        return None
    except BaseException as error:
        kind, text = type(error).__name__, str(error)
        if kind not in INTERNAL_TYPES and not INTERNAL.search(text):
            return None
        call = {"args": describe(args), "keywords": {k: describe(v) for k, v in keywords.items()}}
        return {"function": f"{place}.{name}", "error": f"{kind}: {text[:400]}", **call}


def copies(value, choose, made):
    """Copy the tensors of some arguments, each to the device that `choose` returns."""
    if isinstance(value, torch.Tensor):
        if id(value) not in made:
            made[id(value)] = value.detach().clone().to(choose()).requires_grad_(value.requires_grad)
        return made[id(value)]
    if type(value) in (list, tuple):
        return type(value)(copies(item, choose, made) for item in value)
    if isinstance(value, dict):
        return {key: copies(item, choose, made) for key, item in value.items()}
    return value


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
    return [x for item in items for x in tensors_in(item)]


def outcome_on(function, args, keywords, choose):
    """Call with copies of the arguments. Return the error, or the tensors of the result and of the arguments."""
    made = {}
    args, keywords = copies(args, choose, made), copies(keywords, choose, made)
    devices = {str(x.device) for x in tensors_in((args, keywords))}
    try:
        torch.manual_seed(0)
        result = function(*args, **keywords)
        found = []
        for x in tensors_in(result) + tensors_in((args, keywords)):
            is_known = x.device.type != "meta" and x.numel() <= 200_000
            numbers = x.detach().cpu().to(torch.complex128).numpy() if is_known else None
            found.append((x.dtype, tuple(x.shape), numbers))
        return None, found, devices
    except Exception as error:
        return error, None, devices


def is_same(found, wanted):
    """Whether dtypes, shapes and values agree, as far as both have values."""
    if len(found) != len(wanted):
        return False
    for (dtype, shape, x), (wanted_dtype, wanted_shape, y) in zip(found, wanted):
        if dtype != wanted_dtype or shape != wanted_shape:
            return False
        if x is not None and y is not None:
            with np.errstate(all="ignore"):
                if not np.allclose(x, y, 0.02, 1e-4, equal_nan=True):
                    return False
    return True


def run_mixed_call(functions, seed, index):
    """Run one call on `cpu`, then with its tensors on several devices. Return what is wrong, or None."""
    wanted = None
    # Most random arguments are refused. Calls that work on one device say more.
    for attempt in range(TRIES):
        place, name, function, args, keywords, _ = make_call(functions, seed, index, "mixed", attempt)
        if len(tensors_in((args, keywords))) >= 2:
            error, wanted, _ = outcome_on(function, args, keywords, lambda: "cpu")
            if error is None:
                break
    if len(tensors_in((args, keywords))) < 2:
        return None
    rng = random.Random(f"devices {seed} {index}")
    spread = rng.choice(
        [
            ["cpu", "tpu"],
            ["cpu:3", "tpu:0"],
            ["cpu", "meta:1"],
            ["tpu", "meta"],
            ["meta", "meta:1"],
            ["cpu", "tpu", "meta"],
        ]
    )
    call = {
        "function": f"{place}.{name}",
        "args": describe(args),
        "keywords": {k: describe(v) for k, v in keywords.items()},
    }
    error, wanted, _ = outcome_on(function, args, keywords, lambda: "cpu")
    if error is not None and INTERNAL.search(f"{type(error).__name__}: {error}"):
        return {**call, "error": f"on cpu: {error}"[:400]}
    mixed_error, found, devices = outcome_on(function, args, keywords, lambda: rng.choice(spread))
    call["devices"] = sorted(devices)
    if mixed_error is not None:
        kind, text = type(mixed_error).__name__, f"{type(mixed_error).__name__}: {mixed_error}"[:400]
        if kind in INTERNAL_TYPES or INTERNAL.search(text):
            return {**call, "error": text}
        if error is None and len(devices) > 1 and not DEVICE_ERRORS.search(text):
            # The error may be that of the device.
            alone = [outcome_on(function, args, keywords, lambda device=device: device)[0] for device in devices]
            if all(e is None or str(e) != str(mixed_error) for e in alone):
                return {**call, "error": f"not about devices: {text}"}
        return None
    if UNDETERMINED.search(name) or len(devices) < 2:
        return None
    if error is not None:
        alone = [outcome_on(function, args, keywords, lambda device=device: device)[0] for device in devices]
        return (
            None
            if None in alone
            else {**call, "error": f"accepted; on one device {type(error).__name__}: {error}"[:400]}
        )
    if is_same(found, wanted):
        return None
    _, other, _ = outcome_on(function, args, keywords, lambda: "tpu")
    if other is not None and is_same(found, other):
        return None
    _, again, _ = outcome_on(function, args, keywords, lambda: "cpu")
    if not is_same(again, wanted):
        return None
    return {**call, "error": f"another result: {str(found)[:200]}, on one device {str(wanted)[:200]}"}


def work(seed, start, count, device, log):
    """Run calls in this process. The log gets the index before each call and every finding."""
    warnings.simplefilter("ignore")
    functions = callables()
    with open(log, "a", buffering=1) as file:
        for index in range(start, start + count):
            file.write(f"{index}\n")
            if device == "mixed":
                finding = run_mixed_call(functions, seed, index)
            else:
                finding = run_call(functions, seed, index, device)
            if finding:
                file.write(json.dumps({"index": index, **finding}) + "\n")
            torch.set_default_dtype(torch.float32)


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_piece(seed, start, count, device, folder, end):
    """Run calls in a process of their own. Return the next index and the findings."""
    log = folder / f"{device}-{seed}-{start}.log"
    command = [sys.executable, __file__, "--worker", str(seed), str(start), str(count), device, str(log)]
    log.touch()
    process = subprocess.Popen(
        command,
        preexec_fn=limits,
        env={**os.environ, "TORCHTPU_CACHE": "0"},
        cwd=folder,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    size, since, outcome = 0, time.time(), None
    while process.poll() is None and outcome is None:
        time.sleep(0.2)
        if log.stat().st_size != size:
            size, since = log.stat().st_size, time.time()
        elif time.time() - since > HANG_SECONDS:
            outcome = "hangs"
        if time.time() > end + HANG_SECONDS / 2 and outcome is None:
            outcome = "stopped"
    if process.poll() is None:
        process.kill()
        process.wait()
    lines = log.read_text().splitlines()
    findings = [json.loads(line) for line in lines if line.startswith("{")]
    done = [int(line) for line in lines if line.isdigit()]
    last = done[-1] if done else start
    if outcome is None and process.returncode != 0:
        outcome = f"ends the process with {process.returncode}"
    if outcome not in (None, "stopped"):
        findings.append({"index": last, "error": outcome})
    return last + 1, [{"seed": seed, "device": device, **finding} for finding in findings]


def attack(seconds, seed, devices, calls_per_seed=1500):
    """Run calls for some seconds. Return how many, and the findings."""
    end = time.time() + seconds
    total, findings = 0, []
    with tempfile.TemporaryDirectory() as folder:
        while time.time() < end:
            for device in devices:
                start = 0
                while start < calls_per_seed and time.time() < end:
                    first = start
                    start, found = run_piece(seed, start, calls_per_seed - start, device, pathlib.Path(folder), end)
                    total += start - first
                    findings += found
            seed += 1
    return total, findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--devices", default="cpu,tpu,mixed")
    parser.add_argument("--repeat", nargs=3, metavar=("SEED", "INDEX", "DEVICE"), help="run one call again and show it")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        seed, start, count, device, log = args.worker
        return work(int(seed), int(start), int(count), device, log)
    if args.repeat:
        limits()
        seed, index, device = int(args.repeat[0]), int(args.repeat[1]), args.repeat[2]
        functions = callables()
        place, name, _, call_args, keywords, run_backward = make_call(functions, seed, index, device)
        print(
            f"{place}.{name}",
            describe(call_args),
            {k: describe(v) for k, v in keywords.items()},
            "backward" * run_backward,
            flush=True,
        )
        is_mixed = device == "mixed"
        print(run_mixed_call(functions, seed, index) if is_mixed else run_call(functions, seed, index, device))
        return 0
    total, findings = attack(args.seconds, args.seed, args.devices.split(","))
    for finding in findings:
        print(json.dumps(finding))
    print(f"{total} calls, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
