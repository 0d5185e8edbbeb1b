"""Checks a wheel on a machine with an accelerator, in minutes, and prints one table.

    python benches/machine_check/run.py gpu --wheel pytpu.whl --data DIR    # an NVIDIA GPU and the CUDA plugin for PJRT
    python benches/machine_check/run.py tpu --wheel pytpu.whl --data DIR    # a TPU VM with libtpu

It builds and downloads nothing: the wheel is unpacked into a temporary folder, and needs numpy and the plugin to be
there. `--data` is a folder that holds one or both of

    conformance/   cases recorded from PyTorch, and `replay.py` that replays them
    peers/         `bench.py` and `jax_bench.py`, workloads W1 to W12 for a module that looks like torch, and for JAX

What is missing is left out, and the table says so. Cases are a sample: the same seed takes the same ones. All ends
after `--minutes`: what was measured until then is in the table.

On XLA:CPU the check runs with `--any-device`, to try it out.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
# What the device's name has in it where the machine is what was asked for.
NAMES = {"gpu": ("NVIDIA", "CUDA"), "tpu": ("TPU",)}
# The machine to plan for, by the name that a TPU gives itself.
TOPOLOGIES = {
    "TPU v4": "v4:2x2x1",
    "TPU v5 lite": "v5e:2x2",
    "TPU v5": "v5p:2x2x1",
    "TPU v5p": "v5p:2x2x1",
    "TPU v6 lite": "v6e:2x2",
    "TPU7x": "TPU7x:2x2x1",
}
WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "W6", "W7", "W9", "W10", "W11", "W8")
# Share of the time that each part may have taken when it ends.
ENDS = {
    "gpu": {"conformance": 0.45, "workloads": 1.0},
    "tpu": {"modes": 0.15, "steps": 0.4, "conformance": 0.7, "workloads": 1.0},
}
# So many names are replayed at once; what a batch found counts when it is over.
BATCH = 8
IDENTIFY = """
import json, pytpu as torch
p = torch.tpu.get_device_properties()
print(json.dumps({"name": p.name, "memory": p.total_memory, "version": torch.__version__}))
"""


class Check:
    """A check that runs: its time, its environment, and the rows of its table."""

    def __init__(self, options, site):
        self.options = options
        self.start = time.monotonic()
        self.seconds = 60 * options.minutes
        self.rows = []
        self.failed = False
        # So that programs are compiled, also where XLA:CPU stands in.
        self.env = {**os.environ, "PYTHONPATH": str(site), "TORCHTPU_INTERPRET": "0"}

    def left(self, part=None):
        """Seconds that this part still has."""
        share = ENDS[self.options.machine][part] if part else 1.0
        return self.start + share * self.seconds - time.monotonic()

    def row(self, what, result):
        self.rows.append((what, result))
        print(f"[{time.monotonic() - self.start:4.0f} s] {what}: {result}", flush=True)

    def fail(self, what, result):
        self.failed = True
        self.row(what, f"FAILED: {result}")

    def outcome(self, what, status, output):
        """A row for what a command said last. One that was stopped has not failed."""
        if status is None:
            self.row(what, "stopped: the time of this part is over")
        elif status == 0:
            self.row(what, last_line(output))
        else:
            self.fail(what, last_line(output))

    def run(self, command, seconds, env=None):
        """Runs a command to its end or for so long; gives its exit status, None where it was stopped, and
        its output.
        """
        process = subprocess.Popen(
            command,
            env={**self.env, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=max(seconds, 1))
            return process.returncode, output
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]


def last_line(output):
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def identify(check):
    """What the device is; None where there is none, or another than was asked for."""
    status, output = check.run([sys.executable, "-c", IDENTIFY], 120)
    if status != 0:
        return check.fail("device", last_line(output))
    device = json.loads(last_line(output))
    check.row("device", f"{device['name']}, {device['memory'] / 2**30:.1f} GiB, pytpu {device['version']}")
    wanted = NAMES[check.options.machine]
    if not any(name.lower() in device["name"].lower() for name in wanted) and not check.options.any_device:
        return check.fail("device", f"it is no {' or '.join(wanted)}; --any-device runs all the same")
    return device


def conformance(check, folder):
    """A sample of recorded cases on device tpu, in several processes, batch by batch until the time is over."""
    replay, cases = folder / "replay.py", folder / "data"
    files = sorted(cases.glob("*/*.ctz"))
    if not files:
        return check.row("conformance", f"left out: no recorded cases in {cases}")
    names = sorted({file.name[: -len(".ctz")].split(".", 1)[1] for file in files})
    random.Random(check.options.seed).shuffle(names)
    passed = total = done = 0
    failing = []
    with tempfile.TemporaryDirectory() as temporary:
        result = pathlib.Path(temporary) / "result.json"
        while done < len(names) and check.left("conformance") > 5:
            batch = names[done : done + BATCH]
            pattern = "^(" + "|".join(map(re.escape, batch)) + ")$"
            command = [
                sys.executable,
                str(replay),
                "--module",
                "pytpu",
                "--device",
                "tpu",
                "--data",
                str(cases),
                "--cat",
                "op|mod|opt|sched",
                "--ops",
                pattern,
                "--jobs",
                str(check.options.jobs),
                "--json",
                str(result),
            ]
            status, output = check.run(command, check.left("conformance"))
            if status is None:
                break
            if status != 0 or not result.exists():
                return check.fail("conformance", last_line(output))
            found = json.loads(result.read_text())
            result.unlink()
            passed, total, done = passed + found["pass"], total + found["cases"], done + len(batch)
            failing += [name for name, op in found["ops"].items() if op["fails"]]
    check.row(
        "conformance", f"{passed} of {total} cases right, {done} of {len(names)} names, seed {check.options.seed}"
    )
    if failing:
        check.row("conformance, not all right", ", ".join(sorted(failing)[:20]) + (" ..." if len(failing) > 20 else ""))


def workloads(check, folder):
    """W1 to W11: pytpu in Fused and Strict mode beside PyTorch and JAX where they are installed, one after the other
    for each workload.
    """
    bench = folder / "bench.py"
    if not bench.exists():
        return check.row("workloads", f"left out: no {bench}")
    ours = {
        mode: ([sys.executable, str(bench), "--module", "pytpu", "--device", "tpu", "--mode", mode], None)
        for mode in ("fused", "strict")
    }
    peers = dict(ours)
    if importable(check, "torch"):
        on = (
            "cuda"
            if check.options.machine == "gpu" and importable(check, "torch; assert torch.cuda.is_available()")
            else "cpu"
        )
        peers[f"torch {on}"] = (
            [sys.executable, str(bench), "--module", "torch", "--device", on, "--mode", "eager"],
            {"PYTHONPATH": ""},
        )
    else:
        check.row("workloads, torch", "left out: not installed")
    if (folder / "jax_bench.py").exists() and importable(check, "jax"):
        peers["jax"] = ([sys.executable, str(folder / "jax_bench.py"), "--skip-grow"], {"PYTHONPATH": ""})
    else:
        check.row("workloads, jax", "left out: not installed")
    ratios = []
    for workload in WORKLOADS:
        if check.left("workloads") < 10:
            check.row("workloads", f"stopped before {workload}: the time is over")
            break
        found = {name: measure(check, *command, workload) for name, command in peers.items()}
        for row in found["fused"]:
            fused = found["fused"][row]
            others = {name: rows[row] for name, rows in found.items() if name != "fused" and row in rows}
            parts = [f"{name} {value:.4g} ({value / fused:.2f})" for name, value in others.items()]
            check.row(f"{row}, ms", "; ".join([f"fused {fused:.4g}", *parts]))
            if "strict" in others:
                ratios.append(others["strict"] / fused)
        if not found["fused"]:
            check.fail(workload, "no result in Fused mode")
    if ratios:
        check.row(
            "Strict over Fused",
            f"median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} rows",
        )


def importable(check, what):
    return check.run([sys.executable, "-c", f"import {what}"], 60, {"PYTHONPATH": ""})[0] == 0


def measure(check, command, env, workload):
    """The values of a workload's rows, in milliseconds."""
    with tempfile.TemporaryDirectory() as temporary:
        result = pathlib.Path(temporary) / "rows.json"
        times = ["--min-time", "0.5", "--max-time", "2", "--min-steps", "10"]
        check.run(
            [*command, "--workloads", workload, "--quiet", "--json", str(result), *times],
            min(check.left("workloads"), 90),
            env,
        )
        rows = json.loads(result.read_text())["rows"] if result.exists() else []
    return {row["id"]: row["value"] for row in rows if row.get("unit") == "ms" and "value" in row}


def modes(check):
    """One training run in each mode: the losses must be those of device cpu."""
    for mode in ("fused", "strict", "debug"):
        status, output = check.run([sys.executable, str(HERE / "steps.py"), "losses", mode], check.left("modes"))
        check.outcome(f"mode {mode}", status, output)


def steps(check, device):
    """Measured time and memory of training steps, beside those of the plan."""
    topology = check.options.topology or next((t for name, t in TOPOLOGIES.items() if name in device["name"]), None)
    for model in ("mlp", "gpt"):
        status, output = check.run([sys.executable, str(HERE / "steps.py"), "measure", model], check.left("steps"))
        if status != 0:
            check.outcome(f"step of {model}", status, output)
            continue
        measured = json.loads(last_line(output))
        text = f"{1e3 * measured['seconds']:.4g} ms, {measured['bytes'] / 1e6:.4g} MB"
        if topology is None:
            check.row(f"step of {model}", f"{text}; not planned: give --topology")
            continue
        # One process has the TPU at a time, so the plan is made after the other has ended.
        status, output = check.run(
            [sys.executable, str(HERE / "steps.py"), "plan", model, topology], check.left("steps")
        )
        if status != 0:
            check.row(f"step of {model}", text)
            check.outcome(f"plan of {model}", status, output)
            continue
        planned = json.loads(last_line(output))
        ratio = measured["seconds"] / planned["seconds"]
        check.row(
            f"step of {model}",
            (
                f"{text}; planned for {topology}: {1e3 * planned['seconds']:.4g} ms ({ratio:.2f}), "
                f"{planned['bytes'] / 1e6:.4g} MB"
            ),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", choices=sorted(NAMES))
    parser.add_argument("--wheel", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--jobs", type=int, default=max(1, min(8, (os.cpu_count() or 2) // 2)), help="processes that share the device"
    )
    parser.add_argument("--topology", help="the machine to plan for, where the device's name does not say")
    parser.add_argument("--any-device", action="store_true", help="run on whatever device the plugin has")
    options = parser.parse_args()
    if not options.wheel.is_file():
        parser.error(f"no wheel at {options.wheel}")
    if not options.data.is_dir():
        parser.error(f"no folder at {options.data}")
    if options.machine == "tpu":
        options.jobs = 1  # A process has a TPU for itself.
    with tempfile.TemporaryDirectory() as site:
        zipfile.ZipFile(options.wheel).extractall(site)
        check = Check(options, site)
        device = identify(check)
        if device:
            if options.machine == "tpu":
                modes(check)
                steps(check, device)
            conformance(check, options.data / "conformance")
            workloads(check, options.data / "peers")
    width = max(len(what) for what, _ in check.rows)
    print(f"\n{options.machine} check of {options.wheel.name}, {time.monotonic() - check.start:.0f} s")
    for what, result in check.rows:
        print(f"{what:{width}}  {result}")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
