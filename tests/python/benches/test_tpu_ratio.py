"""Programs for TPUs are estimated to be as fast as JAX's, in the rows that compile in under a minute."""

import ast
import json
import os
import pathlib
import subprocess
import sys

import pytest

import pytpu as torch

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "benches" / "tpu_ratio"

if not torch.tpu.aot.is_available():
    assert os.environ.get("CI") != "true", "libtpu is missing: pip install libtpu"
    pytest.skip("libtpu is not installed", allow_module_level=True)


def short_rows():
    text = (FOLDER / "run.py").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("SHORT = ")]
    return ast.literal_eval(line.partition("=")[2])


@pytest.mark.parametrize("row", short_rows())
def test_ratios_are_within_their_bounds(row):
    bounds = json.loads((FOLDER / "bounds.json").read_text())
    assert sum(key.startswith(row + " ") for key in bounds) == 2
    out = subprocess.run([sys.executable, FOLDER / "run.py", row], capture_output=True, text=True, timeout=1200)
    print(out.stdout)
    assert out.returncode == 0, out.stdout + out.stderr
    assert out.stdout.count(row) == 2


def test_the_recorded_programs_equal_those_of_their_script():
    pytest.importorskip("jax")
    program = "import sys; sys.path.insert(0, sys.argv[1]); import gzip, twins; "
    program += "print(twins.text('digits') == gzip.decompress((twins.TEXTS / 'digits.mlir.gz').read_bytes()).decode())"
    out = subprocess.run([sys.executable, "-c", program, FOLDER], capture_output=True, text=True, timeout=600)
    assert out.stdout.strip() == "True", out.stdout + out.stderr
