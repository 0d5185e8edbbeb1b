"""The handlers that events are sent to."""

from __future__ import annotations

import logging

_log_handlers: dict[str, logging.Handler] = {
    "console": logging.StreamHandler(),
    "dynamic_rendezvous": logging.NullHandler(),
    "null": logging.NullHandler(),
}


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """Return a handler by its name.

    Raises:
        KeyError: if there is no handler of that name.
    """
    return _log_handlers[destination]
