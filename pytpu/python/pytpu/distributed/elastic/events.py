"""Events of a job: workers that start, succeed and fail. A logging handler gets each event as JSON.

`torch.distributed.run` takes the name of a handler in `--event-log-handler`: `null` or `console`. A program that
calls `elastic_launch` may use its own name: it adds a handler to the logger `torchelastic-events-<name>`.
"""

from __future__ import annotations

import enum
import json
import logging
import os
from dataclasses import asdict, dataclass, field

__all__ = ["Event", "EventMetadataValue", "EventSource", "get_logging_handler", "record"]

EventMetadataValue = str | int | float | bool | None


class EventSource(str, enum.Enum):
    """The kind of process that an event is about."""

    AGENT = "AGENT"
    WORKER = "WORKER"


@dataclass
class Event:
    """An event of a job.

    Args:
        name: name of the event.
        source: the kind of process.
        timestamp: time in milliseconds.
        metadata: further values.
    """

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)

    def serialize(self) -> str:
        """Return the event as JSON."""
        return json.dumps(asdict(self))

    __str__ = serialize

    @staticmethod
    def deserialize(data: str | Event) -> Event:
        """Return the event of a text that `serialize` made."""
        if isinstance(data, Event):
            return data
        event = Event(**json.loads(data))
        event.source = EventSource(event.source)
        return event


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """Return a new handler.

    Args:
        destination: `console` writes to standard error, `null` drops events.

    Raises:
        KeyError: if there is no handler of that name.
    """
    kinds = {"console": logging.StreamHandler, "null": logging.NullHandler}
    return kinds[destination]()


def record(event: Event, destination: str = "null") -> None:
    """Send an event to a handler.

    Args:
        event: the event.
        destination: name of the handler.

    Raises:
        KeyError: if there is no handler of that name.
    """
    logger = logging.getLogger(f"torchelastic-events-{destination}")
    if not logger.handlers:
        logger.addHandler(get_logging_handler(destination))
    # The root's handlers print messages for people. They do not get events.
    logger.propagate = False
    if logger.level == logging.NOTSET:
        logger.setLevel(os.environ.get("LOGLEVEL", "INFO"))
    logger.info("%s", event)
