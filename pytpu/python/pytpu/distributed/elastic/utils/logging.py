"""Loggers of `torch.distributed.elastic`."""

from __future__ import annotations

import inspect
import logging
import os

from .log_level import get_log_level

_ROOT = __name__.removesuffix(".elastic.utils.logging")


def get_logger(name: str | None = None) -> logging.Logger:
    """Return a logger whose level is the environment variable `LOGLEVEL`, or `WARNING`.

    Args:
        name: name of the logger. `None` takes the name of the calling module.
    """
    if name is None:
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        name = caller.f_globals.get("__name__") if caller is not None else None
    logger = logging.getLogger(name)
    logger.setLevel(os.environ.get("LOGLEVEL", get_log_level()))
    return logger


def show_messages() -> None:
    """Print the messages of agents to standard error with time, process and line, unless the program prints them."""
    logger = logging.getLogger(_ROOT)
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    place = "%(levelname).1s%(asctime)s.%(msecs)03d %(process)d %(name)s:%(lineno)d] %(message)s"
    handler.setFormatter(logging.Formatter(place, "%m%d %H:%M:%S"))
    logger.addHandler(handler)
