"""A place for a server that says whether the agent is alive. This package has none that listens."""

from __future__ import annotations

from collections.abc import Callable

from ...utils.logging import get_logger

__all__ = ["HealthCheckServer", "create_healthcheck_server"]

logger = get_logger(__name__)


class HealthCheckServer:
    """A server that says whether the agent is alive. Other classes inherit from this one, which does not listen.

    Args:
        alive_callback: a function that returns the time of the agent's last sign of life, in seconds since 1970.
        port: the port.
        timeout: seconds after which the agent counts as dead.
    """

    def __init__(self, alive_callback: Callable[[], int], port: int, timeout: int) -> None:
        self._alive_callback = alive_callback
        self._port = port
        self._timeout = timeout

    @property
    def alive_callback(self) -> Callable[[], int]:
        """The function that returns the time of the agent's last sign of life."""
        return self._alive_callback

    def start(self) -> None:
        """Say that there is no server."""
        logger.warning("No default health check server started")

    def stop(self) -> None:
        """Do nothing: there is no server."""


def create_healthcheck_server(alive_callback: Callable[[], int], port: int, timeout: int) -> HealthCheckServer:
    """Return a new `HealthCheckServer`."""
    return HealthCheckServer(alive_callback, port, timeout)
