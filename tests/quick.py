"""Run the tests that look at what has changed: an answer within three minutes where the last build is still there.

Changed is what differs from the last commit, or from `--since main`. For a file of ops, the table suite asks the rows
of that file: shapes, gradients, modes, lowerings. Tests of the engine always run, since they see most mistakes; so do
those of a changed crate. Python tests are those that changed, and those that name the changed ops most often. For
everything: `make test`.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import time

import summary

ROOT = pathlib.Path(__file__).resolve().parent.parent
SITE = ROOT / "target" / "test-site"
TABLE = ROOT / "tensor" / "src" / "ops"
# A row of the op table: its schema begins with its name.
ROW = re.compile(r'"([a-z_][a-z0-9_]*(?:\.[A-Za-z_0-9]+)?)\((?=[^"]*\) -> )')
# Python tests that see the binding as a whole.
ALWAYS = ("package/test_names.py", "ops/test_error_messages.py", "ops/test_arguments.py", "ops/test_warnings.py")
# Compiling for TPUs takes longer than the rest together.
SLOW = (
    "tpu/test_advise.py",
    "tpu/test_plan.py",
    "benches/test_tpu_ratio.py",
    "tpu/test_kernel_files.py",
    "tpu/test_mosaic.py",
    "tpu/test_pallas.py",
    "tpu/test_stablehlo_ops.py",
    "examples/test_ecosystem.py",
    "examples/test_examples.py",
)


def changed(since):
    """Return the files that differ from a commit, and those that git does not know, as paths from the root."""

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )

    names = git("diff", "--name-only", since) + git("ls-files", "--others", "--exclude-standard")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def rows(files):
    """Return the ops whose rows stand in these files, or beside them in their folder of the op table."""
    found = set()
    for path in files:
        if path.is_relative_to(TABLE):
            family = path.parent.rglob("*.rs") if path.parent != TABLE else [path]
            found |= {row for file in family for row in ROW.findall(file.read_text())}
    return sorted(found)


def rust_tests(files):
    """Return the test programs of the crates that these files belong to, the table suite and the engine's tests."""
    found = {"ops", "lazy"}
    for path in files:
        crate = next(folder for folder in path.parents if folder == ROOT or (folder / "Cargo.toml").exists())
        if path.is_relative_to(TABLE):
            continue  # The table suite looks at these.
        if path.suffix == ".rs" and crate not in (ROOT, ROOT / "fuzz"):
            tests = [*(crate / "tests").glob("*.rs"), *(p.parent for p in (crate / "tests").glob("*/main.rs"))]
            found |= {test.stem for test in tests}
        elif path.suffix == ".rs" and path.parent == ROOT / "tests":
            found.add(path.stem)
    return sorted(found)


def python_tests(ops, files):
    """Return the Python test files that changed, that see everything, and three that name these ops most often."""
    folder = ROOT / "tests" / "python"
    names = {op.split(".")[0] for op in ops}
    count = collections.Counter()
    for path in folder.rglob("test_*.py"):
        if path.relative_to(folder).as_posix() not in SLOW:
            words = re.findall(r"\w+", path.read_text())
            count[path] = sum(word in names for word in words)
    chosen = [path for path, n in count.most_common(3) if n]
    chosen += [folder / name for name in ALWAYS]
    chosen += [path for path in files if path.is_relative_to(folder) and path.name.startswith("test_")]
    return sorted({str(path.relative_to(ROOT)) for path in chosen})


def main():
    """Choose, build and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", default="HEAD", help="the commit that the change is counted from")
    args = parser.parse_args()
    begin = time.monotonic()
    files = changed(args.since)
    ops = rows(files)
    print(f"{len(files)} changed files; {len(ops)} changed ops: {', '.join(ops) or 'all rows are asked'}", flush=True)
    env = {"TORCHTPU_INTERPRET": "0", "TORCHTPU_PJRT_PLUGIN": summary.plugin() or ""} | os.environ
    env["PYTHONPATH"] = str(SITE)
    if ops:
        env["TORCHTPU_TEST_OP"] = ",".join(ops)
    # The features and the profile are those of `make test`: both use the same build.
    rust = ["cargo", "test", "--workspace", "--features", "pytpu/extension-module", "--no-fail-fast"]
    rust += [word for name in rust_tests(files) for word in ("--test", name)]
    python = [sys.executable, "-m", "pytest", *python_tests(ops, files)]
    site = str((SITE / ".installed").relative_to(ROOT))
    for build in ([*rust, "--no-run"], ["make", site]):
        if code := summary.run(build, env):
            return code
    built = time.monotonic() - begin

    count = summary.Count()
    beside = summary.Running(python, env)
    # The TPU compiler takes longer than all else together.
    ends = [summary.run([*rust, "--", "--skip", "libtpu"], env, count.cargo), beside.follow(count.pytest)]
    if any(ends) and not count.failed:
        count.failed += 1
    print(f"\nbuilt in {built:.0f} s, {time.monotonic() - begin:.0f} s with tests")
    print(f"{count.passed} passed, {count.failed} failed", flush=True)
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
