"""Report what a training script would cost on TPUs that are not here.

Usage: `python -m pytpu.aot script.py --topology v5e:2x2,v6e:2x4 --steps 3`

The script runs with device `tpu` planned: see `torch.tpu.plan`. It may say `import torch` or `import pytpu`. Its own
arguments come after `--`.
"""

from __future__ import annotations

import pathlib
import sys
import traceback

import pytpu
from pytpu import _C
from pytpu.optim.optimizer import register_optimizer_step_pre_hook
from pytpu.tpu import _command


class _Enough(BaseException):
    """Raised when the script has made the requested number of steps."""


def _parser():
    parser = _command.parser("aot", "Report what a training script would cost on TPUs that are not here.")
    parser.add_argument("--topology", default="v5e:2x2", help="machines, separated by commas (default: v5e:2x2)")
    parser.add_argument("--html", metavar="FILE", help="write the report there as a page")
    parser.add_argument(
        "--save",
        metavar="FOLDER",
        help="write the compiled programs there, a file for each machine: torch.tpu.load_cache reads it",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print a table of the last step instead, a row for each machine"
    )
    parser.add_argument(
        "--reads", choices=("zeros", "raise"), default="zeros", help="what a read by the host gives (default: zeros)"
    )
    return parser


def _run(script, arguments, steps):
    """Run the script until it has made `steps` steps. Return whether it was ended there."""
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


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments. `None` is those of the process.

    Returns:
        The exit code.
    """
    options, arguments, machine = _command.parse(_parser(), argv)
    plan = pytpu.tpu.plan(**machine, reads=options.reads)
    code, ended = 0, False
    plan.__enter__()
    try:
        ended = _run(options.script, arguments, options.steps)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        # A step that was cut short is not a program.
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
