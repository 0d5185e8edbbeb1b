"""Advise what to change in a training script, by the numbers of the compiler of TPUs.

Usage: `python -m pytpu.advise script.py --topology v5e:2x2`

The script runs with device `tpu` planned: see `torch.tpu.plan`. It may say `import torch` or `import pytpu`. Its own
arguments come after `--`. Each advice names a line of the script, a change, and the numbers of the compiler for both.
"""

from __future__ import annotations

import json
import pathlib
import sys

import pytpu
from pytpu.tpu import _advice, _command, _trial
from pytpu.tpu._costs import Costs
from pytpu.tpu._report import _bytes, _seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _parser():
    parser = _command.parser("advise", "Say what to change in a training script, by the numbers of the TPU's compiler.")
    parser.add_argument("--topology", default="v5e:2x2", help="the machine (default: v5e:2x2)")
    parser.add_argument("--all", action="store_true", help="show what saves less than 1 %% of the step, too")
    parser.add_argument("--no-batch", action="store_true", help="do not look for the largest batch that fits")
    return parser


def headline(step: Any, topology: str) -> str:
    """Return the first line of the report: the cost of a step as it is."""
    fits = "" if step.fits() else ", which does not fit"
    return (
        f"{topology}, 1 chip: step {_seconds(step.seconds)} (compute {_seconds(step.compute_seconds)}, HBM "
        f"{_seconds(step.memory_seconds)}), {100 * step.peak_share:.3g} % of peak; HBM {_bytes(step.total_bytes)} of "
        f"{_bytes(step.memory_bytes)}{fits}; {_advice._count(len(step.planned.programs), 'program', 'programs')}, "
        f"{step.ops:,} ops, "
        f"{step.compile_seconds:.3g} s to compile"
    )


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments. `None` is those of the process.

    Returns:
        The exit code.
    """
    parser = _parser()
    options, arguments, machine = _command.parse(parser, argv)
    if "," in options.topology:
        parser.error(f"argument --topology: expected one machine, but got {options.topology}")
    text = sys.stdin.read() if options.script == "-" else None

    def run(change=_trial.Change(), is_quiet=True, seconds=None):
        # A step may take minutes to compile.
        print(f"running the script with {change}", file=sys.stderr, flush=True)
        made = _trial.run(
            options.script, arguments, machine, options.steps, change, text=text, is_quiet=is_quiet, seconds=seconds
        )
        if made.code and is_quiet:
            print(f"    the script failed: {made.error}", file=sys.stderr, flush=True)
        return made

    try:
        first = run(is_quiet=False)
    except RuntimeError as error:
        print(f"python -m pytpu.advise: {error}", file=sys.stderr)
        return 1
    if first.code:
        return first.code
    if not first.report.steps:
        print("python -m pytpu.advise: the script ran nothing on device tpu", file=sys.stderr)
        return 1
    # Single ops must multiply with the precision of the script.
    pytpu.set_float32_matmul_precision(first.precision)
    advisor = _advice.Advisor(
        first,
        options.topology,
        Costs(options.topology, hbm=machine["hbm"], options=machine["options"]),
        run,
        shows_all=options.all,
    )
    print(headline(advisor.step, options.topology), flush=True)
    for message in advisor.step.errors:
        print(f"    {message}")
    found = list(advisor.advice(finds_batch=not options.no_batch))
    found.sort(key=lambda a: -1.0 if a.share is None else a.share, reverse=True)
    shown = [a for a in found if options.all or a.is_large()]
    for number, advice in enumerate(shown, 1):
        print(f"{number:2}  {advice}")
    if not shown:
        print("    nothing saves 1 % of the step" if not options.all else "    nothing to advise")
    if options.json:
        step = advisor.step
        fields = {
            "topology": options.topology,
            "step": {
                "seconds": step.seconds,
                "compute_seconds": step.compute_seconds,
                "memory_seconds": step.memory_seconds,
                "peak_share": step.peak_share,
                "total_bytes": step.total_bytes,
                "memory_bytes": step.memory_bytes,
                "programs": len(step.planned.programs),
                "ops": step.ops,
                "compile_seconds": step.compile_seconds,
            },
            "advice": [a.to_dict() for a in shown],
        }
        pathlib.Path(options.json).write_text(json.dumps(fields, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
