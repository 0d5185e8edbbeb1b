"""The classes of events."""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass, field

__all__ = ["Event", "EventSource", "NodeState", "RdzvEvent"]

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

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: str | Event) -> Event:
        """Return the event of a text that `serialize` made."""
        if isinstance(data, Event):
            return data
        fields = json.loads(data)
        fields["source"] = EventSource[fields["source"]]
        return Event(**fields)

    def serialize(self) -> str:
        """Return the event as JSON."""
        return json.dumps(asdict(self))


class NodeState(str, enum.Enum):
    """The state of a node in a rendezvous."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class RdzvEvent:
    """An event of a rendezvous.

    Args:
        name: name of the event.
        run_id: name of the job.
        message: the text.
        hostname: name of the machine.
        pid: the process.
        node_state: state of the node.
        master_endpoint: address of the store.
        rank: rank of the node.
        local_id: number of the handler in its process.
        error_trace: traceback of an error.
    """

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: str | RdzvEvent) -> RdzvEvent:
        """Return the event of a text that `serialize` made."""
        if isinstance(data, RdzvEvent):
            return data
        fields = json.loads(data)
        fields["node_state"] = NodeState[fields["node_state"]]
        return RdzvEvent(**fields)

    def serialize(self) -> str:
        """Return the event as JSON."""
        return json.dumps(asdict(self))
