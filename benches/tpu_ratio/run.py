"""Our programs against the same models in plain JAX, by the TPU compiler's own estimates. Needs libtpu, and no TPU.

    python benches/tpu_ratio/run.py                       # all rows: an hour the first time, reports are kept on disk
    python benches/tpu_ratio/run.py digits attention_64   # some
    python benches/tpu_ratio/run.py --short               # rows that compile in less than a minute

Both sides are compiled by the same libtpu with the same options. A ratio is ours over JAX's. The bounds in
`bounds.json` are the best ratios of cycles reached; the exit status is 1 if a row is above its bound by more than 1 %.
Bounds are only ever lowered.
"""

import argparse
import gzip
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import models

import pytpu as torch

HERE = pathlib.Path(__file__).resolve().parent
TOPOLOGIES = ("v5e:2x2", "v5p:2x2x1")
SHORT = ("attention_64", "attention_128", "digits", "small_gpt", "llama_decode", "dropout", "tables", "depthwise")
BOUNDS = HERE / "bounds.json"
# Estimates are exact for a version of libtpu; this is for rounding in the stored bounds.
SLACK = 1.01
COLUMNS = ("cycles", "bytes_accessed", "temp_bytes", "code_bytes", "compile_seconds")


def ours(row, topology):
    """The reports of the programs of a step of ours."""
    run, precision = models.ROWS[row]
    torch.set_float32_matmul_precision(precision)
    with torch.tpu.plan(topology) as plan:
        run()
    step = plan.steps[-1].programs[-1:] if len(plan.steps) == 1 else plan.steps[-1].programs
    found = [plan.programs[i] for i in step]
    errors = [e for p in found for e in p.errors.values()]
    if errors:
        raise RuntimeError(f"{row} on {topology}: {errors[0]}")
    return [p.reports[topology] for p in found]


def theirs(row, topology):
    text = gzip.decompress((HERE / "twins" / f"{models.TWIN_OF.get(row, row)}.mlir.gz").read_bytes()).decode()
    return torch.tpu.aot.compile_stablehlo(text, topology)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "rows", nargs="*", choices=[[], *models.ROWS], metavar="row", help=f"of {', '.join(models.ROWS)}"
    )
    parser.add_argument("--short", action="store_true", help="rows that compile in under a minute")
    parser.add_argument("--topology", default=",".join(TOPOLOGIES))
    parser.add_argument(
        "--lower", action="store_true", help="write ratios that are below their bounds as the new bounds"
    )
    options = parser.parse_args()
    bounds = json.loads(BOUNDS.read_text()) if BOUNDS.exists() else {}
    print(
        f"{'row':14} {'topology':10} programs  {'cycles, ours':>14} {'JAX':>12}  "
        + " ".join(f"{c:>15}" for c in COLUMNS)
        + "   bound"
    )
    above = 0
    for row in options.rows or (SHORT if options.short else models.ROWS):
        for topology in options.topology.split(","):
            programs, twin = ours(row, topology), theirs(row, topology)
            total = {c: sum(getattr(p, c) for p in programs) for c in COLUMNS}
            ratios = {c: total[c] / getattr(twin, c) if getattr(twin, c) else float("nan") for c in COLUMNS}
            key = f"{row} {topology}"
            bound = bounds.get(key, float("inf"))
            if options.lower and ratios["cycles"] < bound:
                bounds[key] = bound = round(ratios["cycles"], 4)
            is_above = ratios["cycles"] > bound * SLACK
            above += is_above
            print(
                f"{row:14} {topology:10} {len(programs):8}  {total['cycles']:14,.0f} {twin.cycles:12,.0f}  "
                + " ".join(f"{ratios[c]:15.3f}" for c in COLUMNS)
                + f"   {bound:.3f}"
                + (" ABOVE" if is_above else ""),
                flush=True,
            )
    if options.lower:
        BOUNDS.write_text(json.dumps(bounds, indent=1, sort_keys=True) + "\n")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
