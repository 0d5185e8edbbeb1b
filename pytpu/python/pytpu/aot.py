"""Report what a training script would cost on TPUs that are not here.

Usage: `python -m pytpu.aot script.py --topology v5e:2x2,v6e:2x4 --steps 3`

The script runs with device `tpu` planned: see `torch.tpu.plan`. It may say `import torch` or `import pytpu`. Its own
arguments come after `--`.
"""

from __future__ import annotations

import os
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
    parser.add_argument(
        "--ranks",
        type=int,
        nargs="?",
        const=0,
        metavar="N",
        help="plan rank 0 of N, with the variables that torchrun sets; without N, of all devices of the machines",
    )
    return parser


#: Devices of a host: of most machines four chips.
_HOST_DEVICES = 4


def _set_ranks(ranks):
    """Set the variables of `torchrun` for rank 0."""
    devices = sorted(set(_C._plan_devices()))
    if ranks == 0 and len(devices) > 1:
        raise ValueError(f"--ranks: the machines have {devices} devices, so state a number")
    ranks = ranks or devices[0]
    local = min(ranks, _HOST_DEVICES)
    values = {"RANK": 0, "LOCAL_RANK": 0, "GROUP_RANK": 0, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": local}
    os.environ.update({name: str(value) for name, value in values.items()})
    os.environ.update({"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"})


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
        The exit code. It is 1 if nothing ran on device `tpu`.
    """
    options, arguments, machine = _command.parse(_parser(), argv)
    plan = pytpu.tpu.plan(**machine, reads=options.reads)
    code, ended = 0, False
    plan.__enter__()
    try:
        if options.ranks is not None:
            _set_ranks(options.ranks)
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
    if not report.programs and not code:
        print("python -m pytpu.aot: nothing ran on device tpu", file=sys.stderr)
        code = 1
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
