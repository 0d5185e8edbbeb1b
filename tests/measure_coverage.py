"""Measure which lines the tests run: of each crate by the Rust tests, of the Python package by the Python tests.

Rust code is compiled with `-C instrument-coverage` by cargo-llvm-cov, which needs the toolchain's component
`llvm-tools`. Python code is measured by coverage.py, without the programs that tests start in other processes. Rust
code that only Python tests run counts as not covered.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

import summary

ROOT = summary.ROOT
SITE = ROOT / "target" / "test-site"
OUT = ROOT / "target" / "coverage"
LLVM_COV = pathlib.Path(sys.executable).parent / "cargo-llvm-cov"


def crate_of(path):
    """Return the folder of the crate that a file belongs to, relative to the repository."""
    folder = next(folder for folder in path.parents if (folder / "Cargo.toml").exists())
    return "src" if folder == ROOT else folder.relative_to(ROOT).as_posix()


def rust(packages, env):
    """Run the Rust tests of these packages, or of all, and return `[ran, all]` lines by crate."""
    report = OUT / "rust.json"
    which = [word for name in packages for word in ("--package", name)]
    which = which or ["--workspace", "--features", "pytpu/extension-module"]
    command = [LLVM_COV, "llvm-cov", "--locked", *which, "--ignore-run-fail", "--json", "--summary-only"]
    subprocess.run([*command, "--output-path", report], cwd=ROOT, env=env, check=True)
    lines = collections.defaultdict(lambda: [0, 0])
    for file in json.loads(report.read_text())["data"][0]["files"]:
        path = pathlib.Path(file["filename"])
        if "tests" in path.relative_to(ROOT).parts:
            continue
        counts = lines[crate_of(path)]
        counts[0] += file["summary"]["lines"]["covered"]
        counts[1] += file["summary"]["lines"]["count"]
    return lines


def python(tests, env):
    """Run these Python tests, and return `[ran, all]` statements by part of the package."""
    data, report = OUT / "python.data", OUT / "python.json"
    coverage = [sys.executable, "-m", "coverage"]
    run = ["run", "--data-file", data, "--source", "pytpu", "-m", "pytest", *tests]
    # Failed tests are shown, and the report counts what ran.
    subprocess.run([*coverage, *run], cwd=ROOT, env=env, check=False)
    subprocess.run([*coverage, "json", "--data-file", data, "-o", report], cwd=ROOT, env=env, check=True)
    statements = collections.defaultdict(lambda: [0, 0])
    for name, file in json.loads(report.read_text())["files"].items():
        parts = pathlib.PurePath(name).parts
        inside = parts[parts.index("pytpu", parts.index("python") + 1 if "python" in parts else 0) + 1 :]
        counts = statements[inside[0] if len(inside) > 1 else "modules beside the packages"]
        counts[0] += file["summary"]["covered_lines"]
        counts[1] += file["summary"]["num_statements"]
    return statements


def show(title, counts):
    """Print a table with a row for each part, and their sum."""
    print(f"\n{title}")
    total = [sum(pair[k] for pair in counts.values()) for k in (0, 1)]
    for name, (ran, all_of_them) in [*sorted(counts.items()), ("total", total)]:
        share = f"{100 * ran / all_of_them:5.1f} %" if all_of_them else "      -"
        print(f"{share}  {ran:7} of {all_of_them:7}  {name}", flush=True)


def main():
    """Measure the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", nargs="*", default=None, help="crates whose Rust tests run; all if none is named")
    parser.add_argument("--tests", nargs="*", default=None, help="Python tests that run; all if none is named")
    args = parser.parse_args()
    both = args.packages is None and args.tests is None
    env = {"TORCHTPU_INTERPRET": "0", "TORCHTPU_PJRT_PLUGIN": summary.plugin() or "", "PYTHONPATH": str(SITE)}
    env |= os.environ
    OUT.mkdir(parents=True, exist_ok=True)
    if both or args.packages is not None:
        show("Rust lines that the Rust tests run, by crate", rust(args.packages or [], env))
    if both or args.tests is not None:
        show("Python statements that the Python tests run, by package", python(args.tests or ["tests/python"], env))


if __name__ == "__main__":
    main()
