"""`python -m pytpu.distributed.launch`: the older command line, which passes `--local-rank` to each worker."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence

from .run import get_args_parser, run


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Return the values of the options.

    Args:
        args: the command line, without the name of the program. `None` takes the one of this process.
    """
    parser = get_args_parser()
    parser.add_argument(
        "--use-env",
        "--use_env",
        default=False,
        action="store_true",
        help="Do not pass --local-rank to the workers: they read LOCAL_RANK.",
    )
    return parser.parse_args(args)


def launch(args: argparse.Namespace) -> None:
    """Run an agent and its workers.

    Args:
        args: the values of the options.

    Raises:
        ValueError: if `--no-python` is given without `--use-env`.
    """
    if args.no_python and not args.use_env:
        raise ValueError("When using the '--no-python' flag, you must also set the '--use-env' flag.")
    run(args)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line.

    Args:
        args: the command line, without the name of the program. `None` takes the one of this process.
    """
    warnings.warn(
        "The module torch.distributed.launch is deprecated\nand will be removed in future. Use torchrun.\n"
        "It passes --local-rank to the script; torchrun sets the environment variable LOCAL_RANK instead.",
        FutureWarning,
        stacklevel=2,
    )
    launch(parse_args(args))


if __name__ == "__main__":
    main()
