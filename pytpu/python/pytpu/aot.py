"""``python -m pytpu.aot script.py --topology v5e:2x2,v6e:2x4 --steps 3``: what a training script would cost on TPUs that are not here.

The script runs with device ``tpu`` planned: see `torch.tpu.plan`. It may say ``import torch`` or ``import pytpu``. What follows ``--``
are its own arguments.
"""

import argparse
import pathlib
import sys
import traceback

import pytpu
from pytpu import _C
from pytpu.optim.optimizer import register_optimizer_step_pre_hook


class _Enough(BaseException):
    """The script has made as many steps as were asked for."""


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m pytpu.aot", description="Report what a training script would cost on TPUs that are not here.",
        epilog="What follows -- are arguments of the script.",
    )
    parser.add_argument("script", help="the script; - for the standard input")
    parser.add_argument("--topology", default="v5e:2x2", help="machines, separated by commas (default: v5e:2x2)")
    parser.add_argument("--steps", type=int, default=3, help="steps of the optimiser after which the script is ended (default: 3)")
    parser.add_argument("--json", metavar="FILE", help="write the report there as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the report there as a page")
    parser.add_argument("--save", metavar="FOLDER", help="write the compiled programs there, a file for each machine: torch.tpu.load_cache reads it")
    parser.add_argument("--markdown", action="store_true", help="print a table of the last step instead, a row for each machine")
    parser.add_argument("--hbm", type=float, metavar="GB", help="device memory to reckon with, in 10^9 bytes")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the compiler; may be repeated")
    parser.add_argument("--reads", choices=("zeros", "raise"), default="zeros", help="what a read by the host gives (default: zeros)")
    return parser


def _run(script, arguments, steps):
    """Run the script until it has made `steps` steps. Returns whether it was ended there."""
    from pytpu import __main__ as runner

    def stop(optimizer, args, kwargs):
        if _C._plan_steps() >= steps:
            raise _Enough

    hook = register_optimizer_step_pre_hook(stop)
    sys.argv = [script, *arguments]
    try:
        runner.run_script(script)
    except _Enough:
        return True
    except SystemExit as error:
        if error.code:
            raise
    finally:
        hook.remove()
    return False


def main(argv=None):
    """Run the command; returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    split = argv.index("--") if "--" in argv else len(argv)
    parser = _parser()
    options = parser.parse_args(argv[:split])
    if options.steps < 1:
        parser.error(f"argument --steps: expected at least 1, but got {options.steps}")
    pairs = [o.partition("=") for o in options.option]
    for name, equals, _ in pairs:
        if not name or not equals:
            parser.error(f"argument --option: expected NAME=VALUE, but got {name}{equals}")
    plan = pytpu.tpu.plan(
        options.topology, hbm=None if options.hbm is None else int(options.hbm * 1e9), reads=options.reads,
        options={name: value for name, _, value in pairs},
    )
    code, ended = 0, False
    plan.__enter__()
    try:
        ended = _run(options.script, argv[split + 1:], options.steps)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        # A step that was cut short is no program.
        plan._finish(drop_pending=ended or code != 0)
    report = plan.report()
    print(report.to_markdown() if options.markdown and report.steps else report)
    if options.json:
        pathlib.Path(options.json).write_text(report.to_json())
    if options.html:
        pathlib.Path(options.html).write_text(report.to_html())
    if options.save and report.programs:
        folder = pathlib.Path(options.save)
        folder.mkdir(parents=True, exist_ok=True)
        for topology in plan.topologies:
            path = folder / (topology.replace(":", "_") + ".bundle")
            print(f"{plan.save(path, topology)} programs in {path}")
    return code


if __name__ == "__main__":
    sys.exit(main())
