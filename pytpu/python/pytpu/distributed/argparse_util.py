"""Actions of `argparse` that take their defaults from the environment."""

from __future__ import annotations

import os
from argparse import Action
from typing import Any

__all__ = ["check_env", "env"]


class env(Action):
    """Store the value of an option. The default is the environment variable `PET_<DEST>`, if it is set.

    Args:
        dest: name of the attribute, such as `nproc_per_node`.
        default: the value without the option and the variable.
        required: whether the option must be given when the variable is not set.

    Example:
        >>> import argparse
        >>> from pytpu.distributed.argparse_util import env
        >>> parser = argparse.ArgumentParser()
        >>> action = parser.add_argument("--size", action=env, type=int, default=1)
        >>> parser.parse_args(["--size", "3"]).size
        3
    """

    def __init__(self, dest: str, default: Any = None, required: bool = False, **kwargs: Any) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, values)


class check_env(Action):
    """Store `True` for a flag. The default is the environment variable `PET_<DEST>`, `0` or `1`.

    Args:
        dest: name of the attribute.
        default: the value without the flag and the variable.
    """

    def __init__(self, dest: str, default: bool = False, **kwargs: Any) -> None:
        default = bool(int(os.environ.get(f"PET_{dest.upper()}", str(int(default)))))
        super().__init__(dest=dest, const=True, default=default, nargs=0, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, self.const)
