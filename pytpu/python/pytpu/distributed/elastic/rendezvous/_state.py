"""The state that the nodes of a rendezvous share.

Its form is that of PyTorch's agents: a pickle with two of their classes. So agents of both kinds may form one job.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from .api import RendezvousStateError

__all__ = ["Node", "State"]


@dataclass(frozen=True, order=True)
class Node:
    """The name of a node.

    Args:
        addr: address of the machine.
        pid: process of the agent.
        local_id: number of the node in this process.
        agent: `pytpu` for the agents of this package. PyTorch's agents do not set it, but keep it.
    """

    addr: str
    pid: int
    local_id: int
    agent: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.addr}_{self.pid}_{self.local_id}"


@dataclass
class State:
    """A round, and the nodes in it and outside of it.

    A round is open until it is complete. Then its participants have ranks, and others wait for the next round. The next
    round opens when all participants have left.

    Attributes:
        round: number of the round.
        complete: whether the round is complete.
        deadline: when an open round with enough nodes is complete.
        closed: whether the job has ended.
        participants: the nodes of the round with their ranks. A rank has no meaning until the round is complete.
        wait_list: nodes for which the next round has room. The agents start it for them.
        redundancy_list: nodes that would be too many. They join when a participant is lost.
        last_heartbeats: the last sign of life of each node.
    """

    round: int = 0
    complete: bool = False
    deadline: datetime | None = None
    closed: bool = False
    participants: dict[Node, int] = field(default_factory=dict)
    wait_list: set[Node] = field(default_factory=set)
    redundancy_list: set[Node] = field(default_factory=set)
    last_heartbeats: dict[Node, datetime] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the state as bytes."""
        # Protocol 3 names a class once, in two lines: its module, and its name.
        data = pickle.dumps(self, 3)
        for name, kind in _CLASSES.items():
            data = data.replace(_line(kind.__module__, kind.__qualname__), _line(_MODULE, name), 1)
        return data

    @staticmethod
    def decode(data: bytes) -> State:
        """Return the state that `encode` or an agent of PyTorch has written.

        Args:
            data: the bytes.

        Raises:
            RendezvousStateError: if they are no state.
        """
        try:
            state = _Unpickler(io.BytesIO(data)).load()
            _check(state)
        except Exception as error:  # Damaged pickles raise errors of any class.
            raise RendezvousStateError("The rendezvous state is corrupt. See inner exception for details.") from error
        return state

    def nodes(self) -> set[Node]:
        """Return all nodes."""
        return {*self.participants, *self.wait_list, *self.redundancy_list, *self.last_heartbeats}

    def remove(self, node: Node, min_nodes: int) -> None:
        """Forget a node."""
        self.last_heartbeats.pop(node, None)
        self.wait_list.discard(node)
        self.redundancy_list.discard(node)
        if self.participants.pop(node, None) is None:
            return
        if self.complete and not self.participants:
            self.complete = False
            self.round += 1
        elif not self.complete and len(self.participants) < min_nodes:
            self.deadline = None

    def finish(self) -> None:
        """Complete the round: give ranks to the participants."""
        self.complete = True
        self.deadline = None
        for rank, node in enumerate(sorted(self.participants)):
            self.participants[node] = rank


# Where PyTorch's agents have the classes, and their names there.
_MODULE = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
_CLASSES: dict[str, type] = {"_RendezvousState": State, "_NodeDesc": Node}
_READABLE: dict[tuple[str, str], Any] = {
    **{(_MODULE, name): kind for name, kind in _CLASSES.items()},
    **{("datetime", kind.__name__): kind for kind in (datetime, timedelta, timezone)},
    ("builtins", "set"): set,
}


def _line(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


class _Unpickler(pickle.Unpickler):
    """A reader that makes nothing but the classes of a state."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _READABLE:
            raise pickle.UnpicklingError(f"a state has no {module}.{name}")
        return _READABLE[module, name]


def _check(state: Any) -> None:
    if not isinstance(state, State):
        raise TypeError(f"expected a state, not {type(state).__name__}")
    for node in state.nodes():
        if not isinstance(node, Node):
            raise TypeError(f"expected a node, not {type(node).__name__}")
    for time in (*state.last_heartbeats.values(), state.deadline):
        # The time of another machine has no meaning without its zone.
        if time is not None and time.tzinfo is None:
            raise ValueError(f"the time {time} has no zone")
