"""Runs short programs of forty-two libraries on this package, and compares their numbers with those of real PyTorch.

    python tests/ecosystem/run.py [--quick] [--device cpu|tpu|both] [--jobs N] [library ...]

The interpreter that runs this file has pytpu. The libraries go into an environment of their own, `.ecosystem`, which is
made where it is missing, with `--no-deps`, so that no other torch comes with them. Each program runs in a process of
its own as `python -m pytpu program.py --device ...`, without the network. Programs for several ranks run in two
processes, which `torch.distributed.run` starts. A program fails if it ends in an error, if a number is missing, or if
one differs from `expected/<library>.json`: in the fifth significant digit on cpu, in the fourth on tpu. Programs must
not catch errors, so that none of them can pass by giving up.

The last line is "N passed, N failed".
"""

import argparse
import ast
import concurrent.futures
import hashlib
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import libraries

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELATIVE = {"cpu": 1e-5, "tpu": 1e-4}
# What may be left of a difference that is zero in real torch.
ABSOLUTE = 1e-6
SECONDS = {"cpu": 600, "tpu": 1500}


def differs(number, wanted, relative):
    """Return whether `number` is further from `wanted` than the tolerance allows."""
    return not abs(number - wanted) <= relative * abs(wanted) + ABSOLUTE or not math.isfinite(number)


def environment(home):
    """Return the variables of a program's process: no network, no files of the user, nothing of this interpreter."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")
    env = {name: text for name, text in os.environ.items() if name not in dropped}
    return env | {
        "HOME": str(home),
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "MPLCONFIGDIR": str(home),
        "PYTHONNOUSERSITE": "1",
        "PYTHONHASHSEED": "0",
        "XDG_CACHE_HOME": str(home / ".cache"),
    }


def plugin():
    """Return the path of the XLA:CPU plugin of this interpreter, which the environment does not have."""
    spec = importlib.util.find_spec("xla_plugins")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found = pathlib.Path(folder) / "xla_cpu_pjrt" / "xla_cpu_pjrt.so"
        if found.exists():
            return str(found)
    sys.exit("the package xla-cpu-pjrt is not installed in this Python environment")


def prepare(folder, lines):
    """Make the environment `folder` with the requirements `lines` and this interpreter's pytpu. Return its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
    stamp = folder / "installed" / hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    if not stamp.exists():
        with tempfile.TemporaryDirectory() as scratch:
            wanted = pathlib.Path(scratch, "requirements.txt")
            wanted.write_text("\n".join(lines) + "\n")
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
            subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-compile", "-r", str(wanted)], check=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.touch()
    # The package alone, not the folder that it lies in: the libraries must come from the environment.
    package = pathlib.Path(importlib.util.find_spec("pytpu").origin).parent
    link = pathlib.Path(site) / "pytpu"
    if not link.is_symlink() or link.resolve() != package:
        link.unlink(missing_ok=True)
        link.symlink_to(package)
    if (pathlib.Path(site) / "torch").exists():
        sys.exit(f"{site} holds a package torch: remove {folder} and try again")
    return python


def catches(path):
    """Return the lines of a program that catch errors."""
    nodes = ast.walk(ast.parse(path.read_text()))
    caught = (ast.Try, ast.TryStar) if hasattr(ast, "TryStar") else (ast.Try,)
    return [
        node.lineno
        for node in nodes
        if isinstance(node, caught) or "suppress" in (getattr(node, "id", ""), getattr(node, "attr", ""))
    ]


def compare(found, wanted, device):
    """Return what is wrong with the numbers of a program, in words, or None."""
    for name in wanted["numbers"]:
        if name not in found["numbers"] and not (name.startswith("cpu.") and device != "cpu"):
            return f"{name} is missing"
    for name, number in found["numbers"].items():
        if name not in wanted["numbers"]:
            return f"{name} was never recorded"
        if name.startswith("cpu.") and device != "cpu":
            continue
        relative = max(RELATIVE[device], wanted["less_exact"].get(name, [0])[0])
        if differs(number, wanted["numbers"][name], relative):
            return f"{name} is {number:.8g}, torch computes {wanted['numbers'][name]:.8g}"
    return None


def run(python, name, device, shown=False):
    """Run the program of a library on a device. Return `(error in words or None, seconds)`."""
    program = libraries.program(name)
    if lines := catches(program):
        return f"the program catches errors in line {lines[0]}", 0.0
    wanted = json.loads(libraries.expected(name).read_text())
    with tempfile.TemporaryDirectory() as home:
        env = environment(pathlib.Path(home))
        env.setdefault("TORCHTPU_PJRT_PLUGIN", plugin())
        # Libraries choose the device that they are told is there.
        env["TORCHTPU_STANDIN_IS_ACCELERATOR"] = str(int(device == "tpu"))
        started = time.perf_counter()
        command = [str(python), "-m", "pytpu", *libraries.command(name), "--device", device]
        try:
            done = subprocess.run(
                command,
                env=env,
                cwd=home,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS[device],
            )
        except subprocess.TimeoutExpired:
            return f"no end after {SECONDS[device]} s", SECONDS[device]
        seconds = time.perf_counter() - started
    if shown:
        print(done.stdout, done.stderr, sep="\n")
    if done.returncode:
        last = (done.stderr.strip() or "no message").rpartition("\n")[2]
        return f"exit code {done.returncode}: {last}", seconds
    try:
        found = libraries.last_line(done.stdout)
    except (IndexError, ValueError):
        return "the program printed no numbers", seconds
    if pathlib.Path(found["file"]).parent.name != "pytpu":
        return f"ran on {found['file']}", seconds
    return compare(found, wanted, device), seconds


def main():
    """Run what was asked for, print a table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", metavar="library", help="the libraries to run; all by default")
    parser.add_argument("--quick", action="store_true", help="the six that `make test` runs")
    parser.add_argument("--device", default="both", choices=["cpu", "tpu", "both"])
    parser.add_argument("--environment", type=pathlib.Path, default=ROOT / ".ecosystem", help="where the libraries go")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--shown", action="store_true", help="print what the programs print")
    args = parser.parse_args()
    names = args.libraries or (list(libraries.QUICK) if args.quick else list(libraries.LIBRARIES))
    if unknown := set(names) - set(libraries.LIBRARIES):
        parser.error(f"no program for {', '.join(sorted(unknown))}")
    devices = ["cpu", "tpu"] if args.device == "both" else [args.device]
    python = prepare(args.environment.absolute(), libraries.requirements(names))

    tasks = [(name, device) for device in devices for name in names]
    failed = 0
    print(f"{'library':<28} {'version':<9} {'device':<6} {'seconds':>8}  result", flush=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(lambda task: run(python, *task, args.shown), tasks)
        for (name, device), (error, seconds) in zip(tasks, results):
            version = json.loads(libraries.expected(name).read_text())["version"]
            failed += error is not None
            print(f"{name:<28} {version:<9} {device:<6} {seconds:8.1f}  {error or 'as torch'}", flush=True)
    print(f"\n{len(tasks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
