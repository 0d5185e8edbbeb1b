"""Free ports, and stores at them."""

from __future__ import annotations

import datetime
import socket
from contextlib import closing

from .... import _C
from .logging import get_logger
from .store import barrier

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]

logger = get_logger(__name__)


def create_c10d_store(
    is_server: bool,
    server_addr: str,
    server_port: int = -1,
    world_size: int = 1,
    timeout: float = 600,
    wait_for_workers: bool = True,
    retries: int = 3,
    use_libuv: bool | None = None,
) -> _C.TCPStore:
    """Create a `TCPStore`, the server or a client.

    Args:
        is_server: whether this process runs the server.
        server_addr: name or address of the server's host.
        server_port: port of the server. -1 takes a free port.
        world_size: number of processes.
        timeout: seconds that calls of the store wait.
        wait_for_workers: whether to wait for all processes.
        retries: how often to try another free port.
        use_libuv: accepted and not used: there is one implementation of the server.

    Raises:
        ValueError: if several processes shall meet at a free port, which only the server knows.
        DistNetworkError: if the port is in use, or the server does not answer.
    """
    if use_libuv is not None:
        logger.warning("create_c10d_store: use_libuv is not used: the server has one implementation")
    if server_port == -1 and world_size > 1:
        raise ValueError(
            f"server_port must be specified when world_size > 1, got server_port={server_port}, world_size={world_size}"
        )
    attempts = retries if server_port == -1 else 1
    for attempt in range(1, attempts + 1):
        port = get_free_port() if server_port == -1 else server_port
        try:
            store = _C.TCPStore(
                server_addr,
                port,
                world_size,
                is_server,
                datetime.timedelta(seconds=timeout),
                wait_for_workers=wait_for_workers,
            )
        except _C._DistNetworkError as error:
            if "address already in use" not in str(error).lower():
                raise
            if attempt == attempts:
                raise _C._DistNetworkError(f"on {server_addr}, port: {port} already in use") from error
            logger.warning("port: %s already in use, attempt: [%s/%s]", port, attempt, attempts)
        else:
            break
    if wait_for_workers:
        barrier(store, world_size, "_tcp_store/num_members", barrier_timeout=timeout)
    return store


def get_free_port() -> int:
    """Return a port that no socket of this machine uses now. Another process may take it at any time."""
    with closing(get_socket_with_port()) as sock:
        return sock.getsockname()[1]


def get_socket_with_port() -> socket.socket:
    """Return a socket that is bound to a free port on all addresses, which stays reserved until it is closed."""
    # A store listens on all addresses, so the port must be free on all of them.
    for family, host in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        sock = None
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.bind((host, 0))
        except OSError as error:  # Without IPv6, for example.
            if sock is not None:
                sock.close()
            logger.info("no socket at %s: %s", host, error)
        else:
            return sock
    raise RuntimeError("Failed to create a socket")
