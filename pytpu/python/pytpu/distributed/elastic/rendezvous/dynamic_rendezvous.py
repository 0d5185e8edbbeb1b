"""A rendezvous of nodes that come and go. All nodes edit one state, with compare-and-set."""

from __future__ import annotations

import itertools
import os
import random
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from .... import _C
from ..utils.logging import get_logger
from ._state import Node, State
from .api import (
    RendezvousClosedError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)
from .utils import address_for_others

__all__ = [
    "DynamicRendezvousHandler",
    "RendezvousBackend",
    "RendezvousSettings",
    "RendezvousTimeout",
    "create_handler",
]

logger = get_logger(__name__)

Token = Any

# Seconds between two reads of the state: the first pause is short, and each one is twice as long as the one before.
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
# `num_nodes_waiting` reads the state at most once in this time, so that many agents do not load the store.
_CACHE_SECONDS = 1.0
# The longest pause after another node was faster to write the state.
_CONFLICT_PAUSE = 0.02

_T = TypeVar("_T")

_numbers = itertools.count()


def _now() -> datetime:
    return datetime.now(timezone.utc)


class RendezvousBackend(ABC):
    """A place for the state of a rendezvous, which all nodes can reach."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the kind of rendezvous."""

    @abstractmethod
    def get_state(self) -> tuple[bytes, Token] | None:
        """Return the state and its version, or `None` without a state.

        Raises:
            RendezvousConnectionError: if the place does not answer.
            RendezvousStateError: if the state cannot be read.
        """

    @abstractmethod
    def set_state(self, state: bytes, token: Token | None = None) -> tuple[bytes, Token, bool] | None:
        """Write the state, unless another process has written one since `token` was read.

        Args:
            state: the new state.
            token: the version that this process has read. `None` if there was no state.

        Returns:
            The state and the version that are there now, and whether they are the new ones.

        Raises:
            RendezvousConnectionError: if the place does not answer.
            RendezvousStateError: if the state cannot be read.
        """


class RendezvousTimeout:
    """Times of a rendezvous.

    Args:
        join: how long a node waits for a complete round. 600 s by default.
        last_call: how long a round with the lowest number of nodes waits for more. 30 s by default.
        close: how long a node tries to close the rendezvous. 30 s by default.
        heartbeat: how long a node tries to tell the others that it is there. 5 s by default.

    Raises:
        ValueError: if a time is not positive.
    """

    _DEFAULTS = {"join": 600, "last_call": 30, "close": 30, "heartbeat": 5}

    def __init__(
        self,
        join: timedelta | None = None,
        last_call: timedelta | None = None,
        close: timedelta | None = None,
        heartbeat: timedelta | None = None,
    ) -> None:
        self._times: dict[str, timedelta] = {}
        for name, value in zip(self._DEFAULTS, (join, last_call, close, heartbeat)):
            value = timedelta(seconds=self._DEFAULTS[name]) if value is None else value
            if value <= timedelta(0):
                raise ValueError(f"The {name} timeout ({value}) must be positive.")
            self._times[name] = value

    @property
    def join(self) -> timedelta:
        """How long a node waits for a complete round."""
        return self._times["join"]

    @property
    def last_call(self) -> timedelta:
        """How long a round with the lowest number of nodes waits for more."""
        return self._times["last_call"]

    @property
    def close(self) -> timedelta:
        """How long a node tries to close the rendezvous."""
        return self._times["close"]

    @property
    def heartbeat(self) -> timedelta:
        """How long a node tries to tell the others that it is there."""
        return self._times["heartbeat"]


@dataclass(repr=False, eq=False, frozen=True)
class RendezvousSettings:
    """Settings of a rendezvous.

    Args:
        run_id: name of the job.
        min_nodes: lowest number of nodes.
        max_nodes: highest number of nodes.
        timeout: the times.
        keep_alive_interval: time between two heartbeats of a node.
        keep_alive_max_attempt: number of missing heartbeats after which a node counts as dead.
        cas_backoff_max_seconds: longest pause after another node was faster to write the state.
    """

    run_id: str
    min_nodes: int
    max_nodes: int
    timeout: RendezvousTimeout
    keep_alive_interval: timedelta
    keep_alive_max_attempt: int
    cas_backoff_max_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.run_id:
            raise ValueError("The run id must be a non-empty string.")
        if self.min_nodes < 1:
            raise ValueError(f"The minimum number of nodes ({self.min_nodes}) must be greater than zero.")
        if self.max_nodes < self.min_nodes:
            raise ValueError(
                f"The maximum number of nodes ({self.max_nodes}) must be greater than or equal to the minimum number "
                f"of nodes ({self.min_nodes})."
            )


class _SharedState:
    """Changes of the state that all nodes share."""

    def __init__(self, backend: RendezvousBackend, settings: RendezvousSettings) -> None:
        self._backend = backend
        self._settings = settings
        self._lock = threading.Lock()
        self._last: State | None = None
        self._last_time = 0.0

    def _remove_dead(self, state):
        oldest = _now() - self._settings.keep_alive_interval * self._settings.keep_alive_max_attempt
        for node, last in list(state.last_heartbeats.items()):
            if last < oldest:
                logger.info("node %s has given no sign of life, and is removed from the rendezvous", node)
                state.remove(node, self._settings.min_nodes)

    def change(self, edit: Callable[[State], _T], timeout: timedelta) -> _T:
        """Apply a function to the state, and write the state if it has changed. Return the function's result.

        Args:
            edit: the function. It is called again if another node has written at the same time.
            timeout: how long to try.
        """
        end = time.monotonic() + timeout.total_seconds()
        with self._lock:
            found: Any = self._backend.get_state()
            while True:
                state, token = (State(), None) if found is None else (State.decode(found[0]), found[1])
                before = state.encode()
                self._remove_dead(state)
                result = edit(state)
                after = state.encode()
                if after != before:
                    answer = self._backend.set_state(after, token)
                    if answer is None or not answer[2]:
                        if time.monotonic() > end:
                            raise RendezvousTimeoutError(
                                f"the state of the rendezvous '{self._settings.run_id}' could not be written within "
                                f"{timeout}: other nodes were faster each time"
                            )
                        longest = max(self._settings.cas_backoff_max_seconds, _CONFLICT_PAUSE)
                        time.sleep(random.uniform(0, longest))
                        found = self._backend.get_state()
                        continue
                self._last, self._last_time = state, time.monotonic()
                return result

    def recent(self) -> State:
        """Return the state as it was some time ago, at most a second."""
        if self._last is None or time.monotonic() - self._last_time > _CACHE_SECONDS:
            self.change(lambda state: None, self._settings.timeout.heartbeat)
        assert self._last is not None
        return self._last


class DynamicRendezvousHandler(RendezvousHandler):
    """A node in a rendezvous whose nodes come and go.

    Args:
        node: the name of this node, which no other node has.
        settings: the settings.
        backend: the place for the state.
        store: store of the agents.
        local_addr: address of this machine for the other nodes.
    """

    def __init__(
        self,
        node: Node,
        settings: RendezvousSettings,
        backend: RendezvousBackend,
        store: _C.Store,
        local_addr: str,
    ) -> None:
        self._this_node = node
        self._settings = settings
        self._backend_name = backend.name
        self._state = _SharedState(backend, settings)
        self._store = store
        self._local_addr = local_addr
        # The address of the store of the workers, and the store if this node runs it.
        self._address: RendezvousStoreInfo | None = None
        self._worker_store: _C.TCPStore | None = None
        self._has_new_store = False
        # Nodes with PyTorch's agent that have the address. They never take another one.
        self._keepers: set[Node] = set()
        self._stop_event = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def from_backend(
        cls,
        run_id: str,
        store: _C.Store,
        backend: RendezvousBackend,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        timeout: RendezvousTimeout | None = None,
        keep_alive_interval: int = 5,
        keep_alive_max_attempt: int = 3,
        cas_backoff_max_seconds: float = 0.0,
    ) -> DynamicRendezvousHandler:
        """Return a new node.

        Args:
            run_id: name of the job.
            store: store of the agents.
            backend: the place for the state.
            min_nodes: lowest number of nodes.
            max_nodes: highest number of nodes.
            local_addr: address of this machine. `None` takes the full name of the host.
            timeout: the times.
            keep_alive_interval: seconds between two heartbeats of a node.
            keep_alive_max_attempt: number of missing heartbeats after which a node counts as dead.
            cas_backoff_max_seconds: longest pause after another node was faster to write the state.
        """
        address = local_addr or socket.getfqdn()
        settings = RendezvousSettings(
            run_id,
            min_nodes,
            max_nodes,
            timeout or RendezvousTimeout(),
            timedelta(seconds=keep_alive_interval),
            keep_alive_max_attempt,
            cas_backoff_max_seconds,
        )
        node = Node(address, os.getpid(), next(_numbers), "pytpu")
        return cls(node, settings, backend, store, address)

    @property
    def settings(self) -> RendezvousSettings:
        """The settings."""
        return self._settings

    def get_backend(self) -> str:
        """Return the name of the kind of rendezvous."""
        return self._backend_name

    @property
    def use_agent_store(self) -> bool:
        """Whether an agent runs the store of the workers. `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` turns this off."""
        return os.environ.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0") != "1"

    @property
    def has_new_store(self) -> bool:
        """Whether the store of the workers has no keys of earlier rounds, and all agents know that."""
        return self._has_new_store

    def _leave(self, state: State) -> None:
        state.remove(self._this_node, self._settings.min_nodes)

    def _step(self, state: State) -> str:
        """Try to get into a round. Return `joined`, `waits` or `spare`."""
        node, settings, now = self._this_node, self._settings, _now()
        if state.closed:
            if node in state.redundancy_list:
                raise RendezvousGracefulExitError(f"The rendezvous '{settings.run_id}' is closed.")
            raise RendezvousClosedError(f"The rendezvous '{settings.run_id}' is closed.")
        # A change of the state at each look would load the store.
        last = state.last_heartbeats.get(node)
        if last is None or now - last > settings.keep_alive_interval / 2:
            state.last_heartbeats[node] = now
        is_full = len(state.participants) >= settings.max_nodes
        if state.complete:
            if node in state.participants:
                return "joined"
            if is_full and node not in state.wait_list:
                state.redundancy_list.add(node)
                return "spare"
            state.redundancy_list.discard(node)
            state.wait_list.add(node)
            return "waits"
        if node not in state.participants:
            state.wait_list.discard(node)
            state.redundancy_list.discard(node)
            state.participants[node] = 0
            if len(state.participants) == settings.min_nodes:
                state.deadline = now + settings.timeout.last_call
        is_late = state.deadline is not None and state.deadline < now
        if len(state.participants) >= settings.max_nodes or is_late:
            state.finish()
            return "joined"
        return "waits"

    def _join(self) -> tuple[State, int]:
        """Wait until this node is in a complete round."""
        timeout = self._settings.timeout.join
        self._state.change(self._leave, timeout)
        end = time.monotonic() + timeout.total_seconds()
        pause = _FIRST_PAUSE
        while True:
            answer, state = self._state.change(lambda state: (self._step(state), state), timeout)
            if answer == "joined":
                return state, state.participants[self._this_node]
            if answer == "spare":
                # A node that is one too many waits as long as the job runs.
                end = time.monotonic() + timeout.total_seconds()
            elif time.monotonic() > end:
                self._state.change(self._leave, self._settings.timeout.close)
                raise RendezvousTimeoutError(
                    f"The rendezvous '{self._settings.run_id}' was not complete within {timeout}: "
                    f"{len(state.participants)} of at least {self._settings.min_nodes} nodes were there."
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for the other nodes, and return the result.

        Raises:
            RendezvousClosedError: if the job has ended.
            RendezvousConnectionError: if the store does not answer.
            RendezvousTimeoutError: if too few nodes came in time.
        """
        logger.info("node %s joins the rendezvous '%s'", self._this_node, self._settings.run_id)
        self._stop_heartbeats()
        try:
            state, rank = self._join()
            store = _C.PrefixStore(f"torch.rendezvous.{self._settings.run_id}.{state.round}", self._store)
            self._start_heartbeats()
            self._address = self._agree_on_address(state.participants, rank, store)
        except Exception:
            self._stop_heartbeats()
            raise
        size = len(state.participants)
        logger.info("node %s has rank %s of %s in round %s", self._this_node, rank, size, state.round)
        return RendezvousInfo(store, rank, size, self._address)

    def _agree_on_address(self, ranks: dict[Node, int], rank: int, store: _C.Store) -> RendezvousStoreInfo:
        """Return the address of the store of the workers.

        Each round has a new store: the keys of workers that failed would confuse the new ones. But PyTorch's agents use
        the store of their first round in all rounds, and tell the workers to add the number of the attempt to keys.
        """
        others = {node for node in ranks if not node.agent}
        self._has_new_store = self.use_agent_store and not others
        keepers = others & self._keepers
        self._keepers = others
        if not self.use_agent_store:
            return RendezvousStoreInfo.build(rank, store, self._local_addr)
        first = min(ranks, key=lambda node: ranks[node])
        if self._address is not None and keepers and (first.agent or first in keepers):
            # The other nodes may be new.
            self._address._publish(store)
            return self._address
        self._worker_store = None
        port = None
        if rank == 0:
            self._worker_store = _C.TCPStore(self._local_addr, 0, None, True, multi_tenant=True)
            port = self._worker_store.port
        return RendezvousStoreInfo.build(rank, store, self._local_addr, port)

    def is_closed(self) -> bool:
        """Return whether the job has ended."""
        return self._state.change(lambda state: state.closed, self._settings.timeout.heartbeat)

    def set_closed(self) -> None:
        """End the job: no node can join any more."""

        def close(state):
            state.closed = True

        self._state.change(close, self._settings.timeout.close)

    def num_nodes_waiting(self) -> int:
        """Return the number of nodes that came too late for this round, as it was at most a second ago."""
        return len(self._state.recent().wait_list)

    def get_run_id(self) -> str:
        """Return the name of the job."""
        return self._settings.run_id

    def shutdown(self) -> bool:
        """End the job. Return whether the others could be told."""
        self._stop_heartbeats()
        try:
            self.set_closed()
        except RendezvousError as error:
            # The agent with the store may have ended before.
            logger.info("could not close the rendezvous '%s': %s", self._settings.run_id, error)
            return False
        return True

    def leave(self) -> None:
        """Leave the round at once, without waiting until the others miss this node's heartbeats. The job goes on."""
        self._stop_heartbeats()
        try:
            self._state.change(self._leave, self._settings.timeout.heartbeat)
        except RendezvousError as error:
            logger.info("could not leave the rendezvous '%s': %s", self._settings.run_id, error)

    def _start_heartbeats(self) -> None:
        def beat(state):
            if self._this_node in state.last_heartbeats:
                state.last_heartbeats[self._this_node] = _now()

        def run(stop):
            while not stop.wait(self._settings.keep_alive_interval.total_seconds()):
                try:
                    self._state.change(beat, self._settings.timeout.heartbeat)
                except RendezvousError as error:
                    logger.warning("could not tell the rendezvous that this node is there: %s", error)

        self._stop_event = threading.Event()
        self._thread = threading.Thread(target=run, args=(self._stop_event,), name="rendezvous", daemon=True)
        self._thread.start()

    def _stop_heartbeats(self) -> None:
        self._stop_event.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _get_timeout(params: RendezvousParameters, name: str) -> timedelta | None:
    seconds = params.get_as_int(f"{name}_timeout")
    return None if seconds is None else timedelta(seconds=seconds)


def create_handler(
    store: _C.Store, backend: RendezvousBackend, params: RendezvousParameters
) -> DynamicRendezvousHandler:
    """Return a node.

    Args:
        store: store of the agents.
        backend: the place for the state.
        params: the settings. `join_timeout`, `last_call_timeout`, `close_timeout`, `heartbeat_timeout` and
            `keep_alive_interval` are in seconds, `keep_alive_max_attempt` is a number.

    Raises:
        ValueError: if a setting is no number.
    """
    names = ("join", "last_call", "close", "heartbeat")
    address = params.local_addr
    if address is None and backend.name == "c10d" and params.get("store_type", "tcp") == "tcp":
        address = address_for_others(params.endpoint)
    backoff = params.get("cas_backoff_max_seconds", 0.0)
    try:
        backoff = float(backoff)
    except (TypeError, ValueError) as error:
        raise ValueError(f"cas_backoff_max_seconds({backoff!r}) is not a valid float value.") from error
    if not 0 <= backoff < float("inf"):
        raise ValueError(f"cas_backoff_max_seconds ({backoff}) must be finite and non-negative.")
    return DynamicRendezvousHandler.from_backend(
        params.run_id,
        store,
        backend,
        params.min_nodes,
        params.max_nodes,
        address,
        RendezvousTimeout(*(_get_timeout(params, name) for name in names)),
        keep_alive_interval=params.get_as_int("keep_alive_interval", 5) or 5,
        keep_alive_max_attempt=params.get_as_int("keep_alive_max_attempt", 3) or 3,
        cas_backoff_max_seconds=backoff,
    )
