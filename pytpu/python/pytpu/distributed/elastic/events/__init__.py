"""Events of a job: workers that start, succeed and fail. A logging handler gets each event as JSON.

`torch.distributed.run` takes the name of a handler in ``--event-log-handler``: ``null`` or ``console``.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import traceback

from .api import Event, EventMetadataValue, EventSource, NodeState, RdzvEvent
from .handlers import get_logging_handler

_loggers: dict[str, logging.Logger] = {}


def _get_or_create_logger(destination: str = "null") -> logging.Logger:
    if destination not in _loggers:
        logger = logging.getLogger(f"torchelastic-events-{destination}")
        logger.setLevel(os.environ.get("LOGLEVEL", "INFO"))
        # The program's own handlers do not get events.
        logger.propagate = False
        logger.addHandler(get_logging_handler(destination))
        _loggers[destination] = logger
    return _loggers[destination]


def record(event: Event, destination: str = "null") -> None:
    """Send an event to a handler.

    Args:
        event: the event.
        destination: name of the handler.
    """
    _get_or_create_logger(destination).info(event.serialize())


def record_rdzv_event(event: RdzvEvent) -> None:
    """Send an event of a rendezvous to the handler ``dynamic_rendezvous``."""
    _get_or_create_logger("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(
    run_id: str,
    message: str,
    node_state: NodeState,
    name: str = "",
    hostname: str = "",
    pid: int | None = None,
    master_endpoint: str = "",
    local_id: int | None = None,
    rank: int | None = None,
) -> None:
    """Make an event of a rendezvous and send it, unless the handler ``dynamic_rendezvous`` drops all events.

    Args:
        run_id: name of the job.
        message: the text.
        node_state: state of the node. `NodeState.FAILED` adds the traceback of the current exception.
        name: name of the event. The default is the name of the calling function.
        hostname: name of this machine. The default is its full name.
        pid: the process. The default is this one.
        master_endpoint: address of the store.
        local_id: number of the handler in this process.
        rank: rank of the node.
    """
    if isinstance(get_logging_handler("dynamic_rendezvous"), logging.NullHandler):
        return
    caller = sys._getframe(1).f_code
    record_rdzv_event(
        RdzvEvent(
            name=f"{os.path.basename(caller.co_filename)}:{name or caller.co_name}",
            run_id=run_id,
            message=message,
            hostname=hostname or socket.getfqdn(),
            pid=pid or os.getpid(),
            node_state=node_state,
            master_endpoint=master_endpoint,
            rank=rank,
            local_id=local_id,
            error_trace=traceback.format_exc() if node_state == NodeState.FAILED else "",
        )
    )
