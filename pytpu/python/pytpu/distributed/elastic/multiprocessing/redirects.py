"""Redirection of this process's own output to files."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

__all__ = ["redirect", "redirect_stderr", "redirect_stdout"]

_FILES = {"stdout": 1, "stderr": 2}


def _flush(std: str) -> None:
    getattr(sys, std).flush()
    # C's buffers, which extensions print to. `None` is the program itself: it has the C library's functions.
    ctypes.CDLL(None).fflush(None)


@contextmanager
def redirect(std: str, to_file: str) -> Iterator[None]:
    """Send a stream of this process and of its children to a file inside a `with` block.

    Args:
        std: `"stdout"` or `"stderr"`.
        to_file: path of the file, which is overwritten.

    Raises:
        ValueError: if `std` is another text.
    """
    if std not in _FILES:
        raise ValueError(f"unknown standard stream <{std}>, must be one of {set(_FILES)}")
    number = _FILES[std]
    before = os.dup(number)
    try:
        with open(to_file, "w+b") as file:
            _flush(std)
            os.dup2(file.fileno(), number)
            try:
                yield
            finally:
                _flush(std)
                os.dup2(before, number)
    finally:
        os.close(before)


redirect_stdout = partial(redirect, "stdout")
redirect_stderr = partial(redirect, "stderr")
