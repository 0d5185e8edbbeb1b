"""Arguments of the commands `python -m pytpu.aot` and `python -m pytpu.advise`."""

from __future__ import annotations

import argparse
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments that both commands have."""
    made = argparse.ArgumentParser(
        prog=f"python -m pytpu.{name}", description=description, epilog="What follows -- are arguments of the script."
    )
    made.add_argument("script", help="the script; - for the standard input")
    made.add_argument(
        "--steps", type=int, default=3, help="steps of the optimiser after which the script is ended (default: 3)"
    )
    made.add_argument("--json", metavar="FILE", help="write the report there as JSON")
    made.add_argument("--hbm", type=float, metavar="GB", help="device memory to reckon with, in 10^9 bytes")
    made.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the compiler; may be repeated"
    )
    made.add_argument(
        "--assume-share",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="part of the rows to assume where values decide their number, as in x[mask] (default: 1)",
    )
    return made


def parse(
    made: argparse.ArgumentParser, argv: list[str] | None = None
) -> tuple[argparse.Namespace, list[str], dict[str, Any]]:
    """Parse the arguments of a command.

    Args:
        made: Parser of the command.
        argv: Arguments. `None` is those of the process.

    Returns:
        The options, the arguments of the script, and the keywords of `torch.tpu.plan` that both commands have.
    """
    argv = sys.argv[1:] if argv is None else argv
    split = argv.index("--") if "--" in argv else len(argv)
    options = made.parse_args(argv[:split])
    if options.steps < 1:
        made.error(f"argument --steps: expected at least 1, but got {options.steps}")
    if not 0 <= options.assume_share <= 1:
        made.error(f"argument --assume-share: expected a number from 0 to 1, but got {options.assume_share}")
    pairs = [o.partition("=") for o in options.option]
    for name, equals, _ in pairs:
        if not name or not equals:
            made.error(f"argument --option: expected NAME=VALUE, but got {name}{equals}")
    machine = {
        "topology": options.topology,
        "hbm": None if options.hbm is None else int(options.hbm * 1e9),
        "options": {name: value for name, _, value in pairs},
        "assume_share": options.assume_share,
    }
    return options, argv[split + 1 :], machine
