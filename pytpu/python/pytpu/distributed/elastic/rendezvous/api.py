"""What every kind of rendezvous has."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from .... import _C
from ..utils.distributed import get_free_port

__all__ = [
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeoutError",
    "rendezvous_handler_registry",
]


class RendezvousError(Exception):
    """A rendezvous failed."""


class RendezvousClosedError(RendezvousError):
    """The rendezvous is closed: the job has ended."""


class RendezvousTimeoutError(RendezvousError):
    """Too few nodes came in time."""


class RendezvousConnectionError(RendezvousError):
    """The store of the rendezvous does not answer."""


class RendezvousStateError(RendezvousError):
    """The state of the rendezvous cannot be read."""


class RendezvousGracefulExitError(RendezvousError):
    """The job has ended without this node, which was one too many. This is no failure."""


@dataclass
class RendezvousStoreInfo:
    """The address of the store that workers use.

    Args:
        master_addr: name or address of the host.
        master_port: port.
    """

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(
        rank: int, store: _C.Store, local_addr: str | None, server_port: int | None = None
    ) -> RendezvousStoreInfo:
        """Return the address that rank 0 writes to `store`.

        Args:
            rank: rank of this node.
            store: a store that all nodes share.
            local_addr: address of this node. `None` takes the full name of the host.
            server_port: port of the store for workers. `None` or 0 takes a free port, where a worker may run it.
        """
        if rank == 0:
            info = RendezvousStoreInfo(local_addr or socket.getfqdn(), server_port or get_free_port())
            info._publish(store)
            return info
        addr, port = store.multi_get([RendezvousStoreInfo.MASTER_ADDR_KEY, RendezvousStoreInfo.MASTER_PORT_KEY])
        return RendezvousStoreInfo(addr.decode(), int(port))

    def _publish(self, store: _C.Store) -> None:
        """Write the address to `store`, where `build` reads it."""
        store.multi_set([self.MASTER_ADDR_KEY, self.MASTER_PORT_KEY], [self.master_addr, str(self.master_port)])


@dataclass(frozen=True, eq=False)
class RendezvousInfo:
    """The result of a rendezvous.

    Args:
        store: store of the agents.
        rank: rank of this node.
        world_size: number of nodes.
        bootstrap_store_info: address of the store of the workers.
    """

    store: _C.Store
    rank: int
    world_size: int
    bootstrap_store_info: RendezvousStoreInfo


class RendezvousHandler(ABC):
    """A node in a rendezvous."""

    @abstractmethod
    def get_backend(self) -> str:
        """Return the name of the kind of rendezvous."""

    @property
    def use_agent_store(self) -> bool:
        """Whether an agent runs the store of the workers."""
        return False

    @abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for the other nodes, and return the result.

        Raises:
            RendezvousClosedError: if the job has ended.
            RendezvousConnectionError: if the store does not answer.
            RendezvousStateError: if the state cannot be read.
            RendezvousTimeoutError: if too few nodes came in time.
        """

    @abstractmethod
    def is_closed(self) -> bool:
        """Return whether the job has ended."""

    @abstractmethod
    def set_closed(self) -> None:
        """End the job: no node can join any more."""

    @abstractmethod
    def num_nodes_waiting(self) -> int:
        """Return the number of nodes that came too late for this round."""

    @abstractmethod
    def get_run_id(self) -> str:
        """Return the name of the job."""

    @abstractmethod
    def shutdown(self) -> bool:
        """End the job and release resources. Return whether that succeeded."""


_BOOLEANS = {
    **dict.fromkeys(("1", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "f", "false", "n", "no"), False),
}


class RendezvousParameters:
    """Settings of a rendezvous.

    Args:
        backend: name of the kind of rendezvous.
        endpoint: `host:port` of the store.
        run_id: name of the job.
        min_nodes: lowest number of nodes.
        max_nodes: highest number of nodes.
        local_addr: address of this node.
        **kwargs: settings of one kind of rendezvous, see `--rdzv-conf`.

    Raises:
        ValueError: if a setting makes no sense.
    """

    def __init__(
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        **kwargs: Any,
    ) -> None:
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the minimum "
                f"number of rendezvous nodes ({min_nodes})."
            )
        self.backend = backend
        self.endpoint = endpoint
        self.run_id = run_id
        self.min_nodes = min_nodes
        self.max_nodes = max_nodes
        self.config = kwargs
        self.local_addr = local_addr

    def get(self, key: str, default: Any = None) -> Any:
        """Return a setting, or `default`."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """Return a setting as a `bool`.

        Raises:
            ValueError: if it is not one.
        """
        value = self.get(key, default)
        if value is None:
            return None
        # `str` makes "true" of `True`, and "1" of 1.
        text = str(value).lower()
        if text not in _BOOLEANS:
            raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid boolean value.")
        return _BOOLEANS[text]

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """Return a setting as an `int`.

        Raises:
            ValueError: if it is not one.
        """
        value = self.get(key, default)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError as error:
            raise ValueError(
                f"The rendezvous configuration option '{key}' does not represent a valid integer value."
            ) from error


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """The kinds of rendezvous by name."""

    def __init__(self) -> None:
        self._creators: dict[str, RendezvousHandlerCreator] = {}

    def __contains__(self, backend: object) -> bool:
        return backend in self._creators

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Add a kind of rendezvous.

        Args:
            backend: its name.
            creator: a function of the settings, which returns the handler.

        Raises:
            ValueError: if another function has the name.
        """
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        current = self._creators.setdefault(backend, creator)
        if current != creator:
            raise ValueError(
                f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it is already registered "
                f"with '{current}'."
            )

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """Return a handler.

        Args:
            params: the settings.

        Raises:
            ValueError: if there is no such kind.
            RuntimeError: if the handler is of another kind.
        """
        backend = params.backend
        if backend not in self:
            raise ValueError(
                f"The rendezvous backend '{backend}' is not registered. Did you forget to call `register`?"
            )
        handler = self._creators[backend](params)
        found = handler.get_backend()
        if found != backend:
            raise RuntimeError(f"The rendezvous backend '{found}' does not match the requested backend '{backend}'.")
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()
