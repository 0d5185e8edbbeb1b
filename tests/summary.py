"""Runs the Rust and the Python tests, and ends in one line that adds up both.

The XLA:CPU plugin of the Python environment that runs this file is handed to the Rust tests.
"""

import argparse
import importlib.util
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
CARGO_LINE = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
PYTEST_COUNT = re.compile(r"(\d+) (passed|failed|error|errors|skipped|xfailed|xpassed)\b")
PYTEST_LINE = re.compile(
    r"^(=+ )?(\d+ (passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)(, )?)+ in [\d.]+s"
)


def plugin():
    """The path of the XLA:CPU plugin in this environment, or None."""
    spec = importlib.util.find_spec("xla_plugins")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found = pathlib.Path(folder) / "xla_cpu_pjrt" / "xla_cpu_pjrt.so"
        if found.exists():
            return str(found)
    return None


class Running:
    """A command that runs. Its output is kept until `follow` shows it."""

    def __init__(self, command, env):
        self.command = command
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def follow(self, on_line=lambda line: None):
        """Shows the output so far, and the rest as it comes; returns the exit code."""
        print("$ " + " ".join(self.command), flush=True)
        while (line := self.lines.get()) is not None:
            print(line, end="", flush=True)
            on_line(line.rstrip("\n"))
        return self.process.wait()


def run(command, env, on_line=lambda line: None):
    """Runs a command, shows its output as it comes, and returns its exit code."""
    return Running(command, env).follow(on_line)


class Count:
    """Tests that passed, failed and were skipped."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def cargo(self, line):
        """Adds a closing line of cargo's test harness."""
        match = CARGO_LINE.match(line)
        if match:
            passed, failed, skipped = map(int, match.groups())
            self.passed += passed
            self.failed += failed
            self.skipped += skipped

    def pytest(self, line):
        """Adds pytest's closing line."""
        if not PYTEST_LINE.match(line):
            return
        for number, kind in PYTEST_COUNT.findall(line):
            if kind in ("passed", "xpassed"):
                self.passed += int(number)
            elif kind in ("failed", "error", "errors"):
                self.failed += int(number)
            else:
                self.skipped += int(number)


def main():
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", action="store_true", help="run the Rust benchmarks instead of the tests")
    parser.add_argument("--only", choices=["rust", "python"], help="run one half only")
    parser.add_argument("--plugin", action="store_true", help="only print the path of the XLA:CPU plugin")
    args = parser.parse_args()
    if args.plugin:
        print(plugin() or "")
        return 0

    env = dict(os.environ)
    found = plugin()
    if found is None:
        print("the package xla-cpu-pjrt is not installed in this Python environment", file=sys.stderr)
        return 1
    env.setdefault("TORCHTPU_PJRT_PLUGIN", found)
    if not args.bench:
        # Tests look at programs and count them. Those of runs without programs switch this on themselves.
        env.setdefault("TORCHTPU_INTERPRET", "0")

    if args.bench:
        code = run(["cargo", "bench", "--workspace", "--exclude", "pytpu"], env)
        return run([sys.executable, "benches/python_calls.py"], env) or code

    count = Count()
    broken = []
    # The feature makes `cargo` use what it compiled for the extension module.
    rust = ["cargo", "test", "--workspace", "--features", "pytpu/extension-module", "--no-fail-fast"]
    # Most tests keep one core busy. A file stays in one process, since its tests share groups of processes.
    python = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "tests/python"]
    if args.only != "python":
        run([*rust, "--no-run"], env)
    # Both suites run at once. The output of the Python tests is shown after that of the Rust tests.
    beside = Running(python, env) if args.only != "rust" else None
    if args.only != "python":
        before = count.failed
        if run(rust, env, count.cargo) != 0 and count.failed == before:
            broken.append("cargo test")
    if beside:
        before = count.failed
        if beside.follow(count.pytest) != 0 and count.failed == before:
            broken.append("pytest")
    # A build that fails closes on no count at all: it counts as one failure.
    for what in broken:
        print(f"{what} ended in an error without a failed test: see above")
        count.failed += 1
    skipped = f", {count.skipped} skipped" if count.skipped else ""
    print(f"\n{count.passed} passed, {count.failed} failed{skipped}", flush=True)
    return 1 if count.failed or not count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
