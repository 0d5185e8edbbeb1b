"""Gradients at zeros, bounds, ties, infinities and NaN on device `tpu`, compared with PyTorch's recorded ones, compiled
and op by op.

    python tests/attack/edge_gradients.py

`tests/python/autograd/test_edge_gradients.py` has the comparison. It compiles two dtypes; this runs all.
"""

import argparse
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "python" / "autograd"


def run():
    """Compare all functions and dtypes in this process, and return the number of findings."""
    sys.path.insert(0, str(FOLDER))
    import test_edge_gradients as edges

    import pytpu as torch

    is_compiled = os.environ["TORCHTPU_INTERPRET"] == "0"
    findings = 0
    for name, (function, operands) in edges.CASES.items():
        for dtype in edges.RECORDER["DTYPES"]:
            if edges.expected(name, dtype) is None:
                continue
            rows = edges.RECORDER["listed"](edges.RECORDER["compute"](torch, function, operands, dtype, "tpu"))
            found = list(edges.differences(name, dtype, rows, is_compiled))
            if found:
                print(f"{name} of {dtype}: {found[:4]}", flush=True)
                findings += 1
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--here", action="store_true", help="run in this process, with its environment")
    if parser.parse_args().here:
        return 1 if run() else 0
    failed = []
    for mode in ("0", "always"):
        environment = {**os.environ, "TORCHTPU_INTERPRET": mode}
        print(f"TORCHTPU_INTERPRET={mode}", flush=True)
        if subprocess.run([sys.executable, __file__, "--here"], env=environment).returncode != 0:
            failed.append(mode)
    print(f"{2 - len(failed)} modes agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
