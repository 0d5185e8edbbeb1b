"""`benches/machine_check`, which is for machines with an accelerator, run with XLA:CPU and stand-ins
for its data.
"""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

import pytpu as torch

BENCH = pathlib.Path(__file__).resolve().parents[3] / "benches" / "machine_check"
# Replay files `op.NAME.ctz`. Each holds the number of cases and the number of failures.
REPLAY = """
import argparse, json, pathlib, re
parser = argparse.ArgumentParser()
for name in ("module", "device", "data", "cat", "ops", "jobs", "json"):
    parser.add_argument("--" + name)
options = parser.parse_args()
assert (options.module, options.device) == ("pytpu", "tpu")
ops, cases, failures = {}, 0, 0
for file in pathlib.Path(options.data).glob("public/*.ctz"):
    name = file.name[3:-4]
    if re.search(options.ops, name):
        n, bad = map(int, file.read_text().split())
        cases, failures = cases + n, failures + bad
        ops["op:" + name] = {"fails": [0] * bad}
json.dump({"pass": cases - failures, "cases": cases, "ops": ops}, open(options.json, "w"))
"""
BENCHMARK = """
import argparse, json
parser = argparse.ArgumentParser()
for name in ("module", "device", "mode", "workloads", "json", "min-time", "max-time", "min-steps"):
    parser.add_argument("--" + name)
parser.add_argument("--quiet", action="store_true")
options = parser.parse_args()
value = {"fused": 2.0, "strict": 5.0, "eager": 1.0}[options.mode]
json.dump({"rows": [{"id": options.workloads, "unit": "ms", "value": value}]}, open(options.json, "w"))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return the path of a wheel of the package under test."""
    package = pathlib.Path(torch.__file__).resolve().parent
    path = tmp_path_factory.mktemp("wheel") / "pytpu.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in package.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(package.parent))
    return path


def check(machine, wheel, data, *options):
    command = [sys.executable, BENCH / "run.py", machine, "--wheel", wheel, "--data", data, *options]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_a_machine_without_the_device_is_refused(wheel, tmp_path):
    status, output = check("gpu", wheel, tmp_path)
    assert status == 1 and "FAILED: it is no NVIDIA or CUDA" in output, output
    status, output = check("tpu", tmp_path / "none.whl", tmp_path)
    assert status == 2 and "no wheel at" in output


def test_cases_and_workloads_are_counted_in_one_table(wheel, tmp_path):
    cases = tmp_path / "conformance" / "data" / "public"
    cases.mkdir(parents=True)
    (tmp_path / "conformance" / "replay.py").write_text(REPLAY)
    for i in range(20):
        (cases / f"op.name{i}.ctz").write_text(f"10 {i == 7}".replace("True", "3").replace("False", "0"))
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers" / "bench.py").write_text(BENCHMARK)
    status, output = check("gpu", wheel, tmp_path, "--any-device", "--minutes", "3")
    assert status == 0, output
    table = output[output.index("\ngpu check of pytpu.whl") :]
    assert "197 of 200 cases right, 20 of 20 names, seed 0" in table
    assert "op:name7" in table and "op:name8" not in table
    assert "fused 2; strict 5 (2.50)" in table
    assert "median 2.50, 2.50 to 2.50, 11 rows" in table


def test_missing_data_is_skipped_and_reported(wheel, tmp_path):
    status, output = check("gpu", wheel, tmp_path, "--any-device")
    assert status == 0 and "left out: no recorded cases" in output and "workloads    left out: no" in output, output


def test_the_steps_are_those_of_cpu_in_each_mode_and_measured():
    run = lambda *arguments: subprocess.run(
        [sys.executable, BENCH / "steps.py", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=dict(os.environ),
    )
    done = run("losses", "strict")
    assert done.returncode == 0 and "are those of cpu to" in done.stdout, done.stderr
    done = run("measure", "mlp")
    assert done.returncode == 0 and '"seconds": ' in done.stdout, done.stderr
